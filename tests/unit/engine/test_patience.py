"""Predictions of deeper prefills, against the times of a hand-made spike on a Thor."""

from __future__ import annotations

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.patience import cold_points, error, predict
from hypothesis import given
from hypothesis import strategies as st

# (tokens, seconds) of cold prefills: arms B (fp8), C (DSpark), D (bf16).
RUNS = {
    "B": [(128073, 46.84), (250073, 131.7), (1040073, 1687.85)],
    "C": [(128073, 49.91), (250073, 128.78), (1040073, 1661.2)],
    "D": [(128073, 45.28), (250073, 122.44), (1040073, 1448.97)],
}


@pytest.mark.parametrize(("arm", "percent"), [("B", 5), ("C", 20), ("D", 5)])
def test_a_million_tokens_from_two_shallower_needles(arm: str, percent: float) -> None:
    *shallow, (tokens, actual) = RUNS[arm]
    prediction = predict(shallow, tokens)
    assert prediction is not None
    came = error(prediction, actual)
    assert abs(came["error_percent"]) < percent
    assert came["within_bounds"] is True
    assert prediction.late_s > actual


def test_one_point_lies_between_its_bounds() -> None:
    prediction = predict([(128073, 46.84)], 250073)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(131.7, rel=0.05)
    assert prediction.low_s < 131.7 < prediction.high_s
    assert prediction.a is None
    assert "one point" in prediction.rule


def test_nothing_measured_is_no_prediction() -> None:
    assert predict([], 1000) is None
    assert predict([(0, 1.0), (10, 0.0)], 1000) is None
    assert predict([(10, 1.0)], 0) is None


def test_exact_laws_are_found_and_negative_parts_are_not() -> None:
    both = predict([(n, 2e-4 * n + 1e-9 * n * n) for n in (1000, 50000, 200000)], 1_000_000)
    assert both is not None
    assert both.seconds == pytest.approx(1200)
    falling = predict([(1000, 10.0), (2000, 11.0)], 4000)  # cheaper with depth: no quadratic part
    assert falling is not None
    assert falling.b == 0
    steep = predict([(1000, 1.0), (2000, 16.0)], 4000)
    assert steep is not None
    assert steep.a == 0


def test_repeats_at_one_depth_are_one_point() -> None:
    prediction = predict([(1000, 1.0), (1000, 3.0)], 2000)
    assert prediction is not None
    assert prediction.points == 1
    assert prediction.low_s == pytest.approx(4.0)


def test_only_needles_that_this_boot_proved_cold_are_points() -> None:
    def needle(
        tokens: object, seconds: object, state: str, boot: str = "a@1", phase: str = "needle"
    ) -> dict[str, object]:
        summary = {"prompt_tokens": tokens, "ttft_s": seconds, "cache": {"state": state}}
        return {"phase": phase, "context": {"boot_id": boot}, "summary": summary}

    results = [
        needle(128073, 46.84, "cold"), needle(250073, 1.97, "warm"), needle(5, 1.0, "unproven"),
        needle(250073, 131.7, "cold", boot="b@2"), needle(9, None, "cold"), needle(9, 1.0, "cold", phase="decode"), {},
    ]  # fmt: skip
    assert cold_points(results, "a@1") == [(128073, 46.84)]
    assert cold_points(results, None) == [(128073, 46.84), (250073, 131.7)]


@given(
    st.lists(st.tuples(st.integers(1, 2_000_000), st.floats(0.001, 1e5)), min_size=1, max_size=6),
    st.integers(1, 2_000_000),
)
def test_a_prediction_is_positive_and_within_its_own_bounds(points: list[tuple[int, float]], tokens: int) -> None:
    prediction = predict(points, tokens)
    assert prediction is not None
    assert prediction.seconds > 0
    assert prediction.low_s <= prediction.seconds * 1.000001
    assert prediction.seconds <= prediction.high_s * 1.000001
