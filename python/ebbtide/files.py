"""Files of ours, small JSON ones and compiled libraries, that are kept from run to run in the user's cache folder.

What is kept carries a sum of its content. Whatever is not as it was written (damaged, of another form, in a folder that
others can write to, no file at all) counts as none: it is worked out anew.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

_LARGEST = 1 << 30  # of a file that is kept
_MARK = b"\nebbtide-sum:"  # in front of the sum of a library, behind its last byte
_SUM_DIGITS = 64


def cache_folder() -> pathlib.Path:
    """Where what was worked out is kept from run to run: EBBTIDE_CACHE, else XDG_CACHE_HOME/ebbtide, else ~/.cache/ebbtide."""
    own = os.environ.get("EBBTIDE_CACHE", "")
    if own:
        return pathlib.Path(os.path.abspath(own))
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # as its specification has it, another is to be ignored
        return pathlib.Path(named) / "ebbtide"
    try:
        return pathlib.Path.home() / ".cache" / "ebbtide"
    except RuntimeError:  # a user without a home
        return pathlib.Path(tempfile.gettempdir()) / f"ebbtide-{os.getuid()}"


def make_private(folder: str | os.PathLike[str]) -> bool:
    """Makes the folder, for this user alone where it is not there. Whether only this user can write what lies in it; where
    others can, that is said once."""
    folder = os.path.abspath(folder)
    missing = []
    while not os.path.isdir(folder) and folder not in missing:
        missing.append(folder)
        folder = os.path.dirname(folder)
    try:
        for one in reversed(missing):
            try:
                os.mkdir(one, 0o700)
            except FileExistsError:
                pass  # somebody else made it meanwhile
        return is_private(missing[0] if missing else folder)
    except OSError:
        return False


def is_private(folder: str | os.PathLike[str]) -> bool:
    """Whether only this user, or root, can put a file into the folder. Says once where others can."""
    exposed = _exposed(os.path.realpath(folder))
    if exposed:
        _say_once(f"{exposed}: others can write there, so nothing is read from {os.fspath(folder)} or kept in it; `chmod go-w` it, or let "
                  "EBBTIDE_CACHE name a folder of your own")
    return not exposed


def read_bytes(path: str | os.PathLike[str]) -> bytes | None:
    """The content of a regular file that nobody but this user, or root, can have written. None: there is none."""
    try:
        if _exposed(os.path.dirname(os.path.realpath(path))):
            return None
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a named pipe must not hold us up
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST or _by_others(status):
                return None
            return file.read(_LARGEST)
    except OSError:
        return None


def read_kept(path: str | os.PathLike[str], is_valid: Callable[[Any], bool]) -> Any:
    """What `keep` wrote under this name; None where there is nothing, or something else. `is_valid`: whether the content has
    the form that its user expects; it may fail on what has not."""
    content = read_bytes(path)
    if content is None:
        return None
    try:
        whole = json.loads(content)
        value = whole["content"]
        same = hmac.compare_digest(whole["sum"], _sum_of(path, value))
        return value if same and is_valid(value) else None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return None


def keep(path: str | os.PathLike[str], value: Any) -> None:
    """A folder that cannot be written to, or that others can, is no error: then nothing is kept."""
    try:
        if make_private(os.path.dirname(path)):
            write_text(path, json.dumps({"sum": _sum_of(path, value), "content": value}))
    except OSError:
        pass


def _sum_of(path: str | os.PathLike[str], value: Any) -> str:
    said = [os.path.basename(path), value]  # the name too: files may have been exchanged
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def seal(path: str | os.PathLike[str]) -> None:
    """Puts a sum behind the last byte of a library, where no loader looks. is_sealed then tells whether it is whole."""
    with open(path, "r+b") as file:
        digits = hashlib.sha256(file.read()).hexdigest()
        file.write(_MARK + digits.encode())


def kept_library(folder: str, name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The library of that name in a folder of the cache. Where it is not there, or not whole, `make` makes it at the path it is given. Where
    the cache cannot be had, or others can write to it, the library lasts as long as this process."""
    path = cache_folder() / folder / name
    if is_sealed(path):
        return path
    if not make_private(path.parent):
        path = pathlib.Path(_folder_of_this_process()) / name
        if is_sealed(path):
            return path
    made = path.with_name(f"{path.name}.{os.getpid()}")
    # The ranks of one program come here at the same time: one of them makes it, the others wait for it.
    with open(path.with_name(f"{path.name}.lock"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if is_sealed(path):
            return path
        try:
            make(made)
            seal(made)
            os.replace(made, path)
        finally:
            made.unlink(missing_ok=True)
    return path


@functools.cache
def _folder_of_this_process() -> str:
    folder = tempfile.mkdtemp(prefix="ebbtide-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_sealed(path: str | os.PathLike[str]) -> bool:
    """Whether the library is as it was sealed, by this user or root, and where nobody else can have put it."""
    content = read_bytes(path)
    if content is None or len(content) < _SUM_DIGITS + len(_MARK):
        return False
    body, mark, digits = content[: -_SUM_DIGITS - len(_MARK)], content[-_SUM_DIGITS - len(_MARK) : -_SUM_DIGITS], content[-_SUM_DIGITS:]
    return mark == _MARK and hmac.compare_digest(hashlib.sha256(body).hexdigest().encode(), digits)


def _exposed(folder: str) -> str:
    """The folder, or the one above it, through which others can exchange what lies in it. Empty: none."""
    innermost = True
    while True:
        status = os.lstat(folder)
        # In a folder such as /tmp, others cannot rename or remove what is not theirs; but the innermost may be none such,
        # since others could put a new file there.
        is_shared_safely = bool(status.st_mode & stat.S_ISVTX) and not innermost
        if status.st_uid not in (os.getuid(), 0) or (_by_others(status) and not is_shared_safely):
            return folder
        innermost = False
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _by_others(status: os.stat_result) -> bool:
    """Whether others than this user and root can write it, or own it."""
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


@functools.cache
def _is_own_group(group: int) -> bool:
    """Whether nobody but this user, or root, is in the group, as where every user has one of their own."""
    import grp
    import pwd

    if group == 0:
        return True
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


@functools.cache
def _say_once(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Of a file that this program or one that it started has just written; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Under a temporary name first, so that a reader never sees half a file."""
    path = os.path.abspath(path)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        try:
            file.write(content)
            file.flush()
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
