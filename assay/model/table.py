"""What every table of our TOML files is: strict, closed to unknown keys, never changed after loading."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A TOML table: unknown keys are errors, values never change after loading."""

    # Built at first use: most commands validate few of the tables. Reading the docstrings that follow the keys means
    # parsing the source of every class, which only the schemas need: see `describe_keys`.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def describe_keys() -> None:
    """Let the tables that are defined from here on know the docstrings of their keys, for the schemas.

    Call it before the modules that define them are imported.
    """
    Table.model_config["use_attribute_docstrings"] = True
