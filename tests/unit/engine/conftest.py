"""Property tests may be slow on a busy machine; what they find is what counts."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("lobes", deadline=None)
settings.load_profile("lobes")
