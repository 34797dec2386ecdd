"""What a demonstration asks, and what it promises."""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.gold import GoldSpan

ENDING = ".toml"


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Demo(_Strict):
    """A question, and what it must find. `relevant` are judged spans, each of which has to be met."""

    title: str = Field(pattern=r"\S")
    tells: str = Field(pattern=r"\S", description="what to look out for")
    query: str = Field(pattern=r"\S")
    language: str = Field("en", pattern=r"^[a-z]{2}$")
    mode: str | None = Field(None, description="the retrieval mode; None for the default one")
    within: int = Field(5, ge=1, le=50, description="the first results that have to meet every span")
    relevant: tuple[GoldSpan, ...] = Field(min_length=1)
    says: Words = Field((), description="words that what is found has to hold, each in one of the passages")
    never_in_notes: Words = Field((), description="words that no note of the archive holds")
    shares_no_word: bool = Field(False, description="whether the passages that answer hold no content word of the query")
    not_found_by: Words = Field((), description="modes that don't meet a span within as many results")
    claims_from: int = Field(0, ge=0, le=3, description="episodes that an answer must quote judged passages of")


def read_demos(folder: Path) -> list[Demo]:
    """The demonstrations in a folder, in the order of their files' names.

    Raises `UsageError` naming the file and the key that is wrong, and where there are none.
    """
    paths = sorted(folder.glob(f"*{ENDING}"))
    if not paths:
        raise UsageError(f"{folder} has no demonstrations", f"the sample archive has some; write your own as NAME{ENDING}")
    return [_read(path) for path in paths]


def _read(path: Path) -> Demo:
    try:
        return Demo.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error})", "mend that line") from error
    except OSError as error:
        raise UsageError(f"{path} can't be read ({error.strerror})", "make it a file that you may read") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(f"{path}: {key}", first["msg"].removeprefix("Value error, ")) from error
