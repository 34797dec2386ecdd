"""Files that are there whole or not at all, whenever their writer is killed."""

import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_TEMPORARY = re.compile(r"\..+\.([0-9]{1,9})\.tmp")


def write_parquet(table: pa.Table, path: Path) -> None:
    """Writes a table with its schema's metadata; the folder is made if it isn't there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    pq.write_table(table, temporary, compression="zstd")
    _put_in_place(temporary, path)


def write_text(text: str, path: Path) -> None:
    """Writes UTF-8; the folder is made if it isn't there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.write_text(text, encoding="utf-8")
    _put_in_place(temporary, path)


def link(source: Path, target: Path) -> None:
    """Makes `target` a second name of a file that is only ever replaced, never written to; a copy where links can't be made.

    Not flushed to disk: for what can be made again. Raises `FileNotFoundError` where there is no `source`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(target)
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links, or a file that has too many
        shutil.copyfile(source, temporary)
    temporary.replace(target)
    temporary.unlink(missing_ok=True)  # a rename onto another name of the same file leaves both


def sweep(folder: Path, pattern: str) -> None:
    """Removes what writers that are gone left half-written, among the files that match `pattern`."""
    for path in folder.glob(pattern):
        writer = _TEMPORARY.fullmatch(path.name)
        if writer and int(writer[1]) != os.getpid() and not _is_running(int(writer[1])):
            path.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """In the same folder, so that the rename is atomic; hidden, and named after the writer, so that it can be swept."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _put_in_place(temporary: Path, path: Path) -> None:
    flush_to_disk(temporary)
    temporary.replace(path)
    flush_to_disk(path.parent)


def flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
