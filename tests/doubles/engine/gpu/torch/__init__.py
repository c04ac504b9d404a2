# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of PyTorch as it takes to ask an image what it is; answers as the seed's did."""

from __future__ import annotations

from . import cuda, version

__version__ = "2.13.0+cu130"
bfloat16 = "bfloat16"
__all__ = ["Tensor", "bfloat16", "cuda", "ones", "version"]


class Tensor:
    """A matrix whose elements are all the same."""

    def __init__(self, rows: int, columns: int, value: float) -> None:
        self.rows, self.columns, self.value = rows, columns, value

    def t(self) -> Tensor:
        """Transposed."""
        return Tensor(self.columns, self.rows, self.value)

    def __matmul__(self, other: Tensor) -> Tensor:
        return Tensor(self.rows, other.columns, self.value * other.value * self.columns)

    def float(self) -> Tensor:
        """The same."""
        return self

    def cpu(self) -> Tensor:
        """The same."""
        return self

    def all(self) -> bool:
        """Whether no element is zero."""
        return bool(self.value)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return Tensor(self.rows, self.columns, float(self.value == other))

    __hash__ = None  # type: ignore[assignment]


def ones(rows: int, columns: int, dtype: str = "", device: str = "cpu") -> Tensor:
    """A matrix of ones."""
    if device == "cuda" and not cuda.is_available():
        raise RuntimeError("No CUDA GPUs are available")
    return Tensor(rows, columns, 1.0)
