"""A section of the configuration, and the types of values that several sections have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nbstream.config.paths import read_path
from nbstream.config.values import SecretFile, read_ca_file, read_secret_file

FilePath = Annotated[Path, BeforeValidator(read_path)]
CaFile = Annotated[Path, BeforeValidator(read_ca_file)]
PasswordFile = Annotated[SecretFile, BeforeValidator(read_secret_file)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
ByteCount = Annotated[int, Field(ge=1, le=1 << 40)]
PositiveNumber = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]  # 1e-320 gives infinite scores
Probability = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Section(BaseModel):
    """A mapping of the file. Its problems are raised as pydantic's ValidationError, without the input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        hide_input_in_errors=True,
        defer_build=True,  # the validator of a whole configuration has those of its sections: each is built once
    )
