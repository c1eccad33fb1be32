"""Errors of file systems: which of them another try may mend, and what mends the others.

File systems raise errors of many kinds. Those of object stores often have the server's own code or status in
their causes. Final, so that a request is not repeated:

    denied       PermissionError, HTTP's 401 and 403, codes and classes of wrong or expired credentials
    missing      FileNotFoundError, NoSuchBucket
    in the way   FileExistsError, IsADirectoryError, NotADirectoryError, a read-only file system
    program      TypeError, AttributeError, NotImplementedError, ImportError, MemoryError

All others are transient: timeouts, lost connections, a busy server, a full disk.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

_FINAL = (
    PermissionError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    TypeError,
    AttributeError,
    NotImplementedError,
    ImportError,
    MemoryError,
)
_FINAL_NUMBERS = {errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EXDEV}
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}
_DENIED_STATUS = {"401", "403"}
_DENIED_CODES = {
    "AccessDenied",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_DENIED_CLASSES = {
    "AuthenticationException",
    "ClientAuthenticationError",
    "CredentialRetrievalError",
    "DefaultCredentialsError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "RefreshError",
    "SSOTokenLoadError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
}
"""Classes of botocore, google-auth, azure and paramiko, none of which is imported for this."""


def is_final(error: BaseException) -> bool:
    """Return whether no further try mends an error."""
    number = getattr(error, "errno", None)
    return isinstance(error, _FINAL) or number in _FINAL_NUMBERS or is_denied(error)


def is_denied(error: BaseException | None) -> bool:
    """Return whether a peer may not do what it has asked for, as with expired credentials."""
    return isinstance(error, PermissionError) or any(
        type(one).__name__ in _DENIED_CLASSES or _codes_of(one) & (_DENIED_CODES | _DENIED_STATUS)
        for one in _chain(error)
    )


def is_missing_bucket(error: BaseException) -> bool:
    """Return whether the bucket is missing, and not only an object of it."""
    return any("NoSuchBucket" in _codes_of(one) for one in _chain(error))


def is_refused_condition(error: BaseException) -> bool:
    """Return whether a request failed because its condition did not hold: HTTP's status 412.

    File systems report it by an OSError with a cause of their own kind, or by their own kind.
    """
    return any(_codes_of(one) & {"PreconditionFailed", "412"} for one in _chain(error))


def describe(error: BaseException) -> str:
    """Return the class and the text of an error, as a part of a sentence."""
    return f"{type(error).__name__}: {error}".rstrip(". :")


def find_remedy(error: BaseException) -> str:
    """Return what mends an error, as the end of a message; "" if it is not known."""
    if is_denied(error):
        return (
            "; renew the credentials, or give this peer the right, and check this machine's clock;"
            " then go on: nothing is lost"
        )
    if isinstance(error, FileNotFoundError) or is_missing_bucket(error):
        return "; the folder or the bucket is gone: bring it back, and go on"
    if getattr(error, "errno", None) in _FULL:
        return "; free space in the store, and go on"
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    for _ in range(10):  # a cause may be a cause of itself
        if error is None:
            return
        yield error
        error = error.__cause__


def _codes_of(error: BaseException) -> set[str]:
    """Return the codes and the status that a client of an object store has put into an error."""
    response: Any = getattr(error, "response", None)
    answer = response.get("Error") if isinstance(response, dict) else None  # other clients have other answers
    found = answer.get("Code") if isinstance(answer, dict) else None
    given = (found, *(getattr(error, name, None) for name in ("status", "status_code", "code")))
    return {str(one) for one in given if isinstance(one, str | int)}
