"""Files of a Hugging Face dataset: downloaded once, then read from the cache."""

import errno
import re
from pathlib import Path
from typing import NamedTuple

from safepyramid.errors import DataError

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DATASET_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


class HubFile(NamedTuple):
    """A file of a dataset on the Hub, as it lies in the local cache."""

    path: Path
    commit: str
    """The full hash of the commit that the revision stands for; empty if unknown."""


def is_commit(revision: str) -> bool:
    """Whether a revision is a full commit hash, which always names the same bytes."""
    return _COMMIT.fullmatch(revision) is not None


def is_dataset_id(name: str) -> bool:
    """Whether a name has the form of a dataset id, `organisation/name`."""
    return _DATASET_ID.fullmatch(name) is not None


def download(dataset: str, filename: str, revision: str) -> HubFile:
    """Fetch a file of a dataset, from the cache if it is there.

    Honours the Hub's own environment variables: HF_TOKEN, HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE
    and the proxy settings. Without a network, a file that was fetched before is taken from the
    cache.

    Args:
        dataset: The id of the dataset, `organisation/name`.
        filename: The file's path in the dataset.
        revision: A commit hash, a tag or a branch.

    Raises:
        DataError: It cannot be had; the message says why and what to do.
    """
    from huggingface_hub import hf_hub_download

    def fetch(local_files_only: bool) -> HubFile:
        path = Path(
            hf_hub_download(
                dataset,
                filename,
                repo_type="dataset",
                revision=revision,
                local_files_only=local_files_only,
            )
        )
        # The cache keeps every commit in a folder that bears its hash.
        commit = next((part for part in reversed(path.parts) if is_commit(part)), "")
        return HubFile(path, commit)

    try:
        return fetch(local_files_only=False)
    except Exception as error:
        if _may_be_the_network(error):
            try:
                return fetch(local_files_only=True)
            except OSError:
                pass  # Not cached either: what failed first is what to tell.
        raise DataError(_what(error, dataset, filename, revision)) from error


def _may_be_the_network(error: Exception) -> bool:
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    if isinstance(error, OSError) and error.errno is not None:
        return False  # The disk's fault.
    return not isinstance(error, HfHubHTTPError | HFValidationError | EntryNotFoundError)


def _what(error: Exception, dataset: str, filename: str, revision: str) -> str:
    """One line on why a download failed, and the next step."""
    from huggingface_hub import errors

    page = f"https://huggingface.co/datasets/{dataset}"
    status = _status(error)
    if isinstance(error, errors.GatedRepoError):
        return (
            f"dataset {dataset!r} is gated: accept its terms at {page} and set HF_TOKEN to a token "
            "of that account"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"the Hub knows no dataset {dataset!r} that you may read ({status}): check the name; "
            "if it is private, set HF_TOKEN; if you meant a file, there is none of that name"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"dataset {dataset!r} has no revision {revision!r}: choose one at {page}/commits/main and "
            f"ask for {dataset}@REVISION"
        )
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return f"dataset {dataset!r} has no file {filename!r} at revision {revision!r}: see {page}/tree/main"
    if isinstance(error, errors.HFValidationError):
        return f"{dataset!r} is no dataset id: give organisation/name, or the path of a file"
    if status in (401, 403):
        return (
            f"the Hub refuses access to dataset {dataset!r} ({status}): set HF_TOKEN to a valid token "
            "that may read it"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no space left on the disk for {filename!r} of {dataset!r}: free some, or set HF_HOME "
            "to a folder on another disk"
        )
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"the download cache cannot be written ({error.strerror}): set HF_HOME to another folder"
    if status:
        return f"the Hub answers {status} for dataset {dataset!r}: try again later, or give a local file"
    cause = _root(error)
    if isinstance(cause, errors.OfflineModeIsEnabled):
        return (
            f"dataset {dataset!r} at revision {revision!r} is not in the cache and HF_HUB_OFFLINE is "
            "set: unset it, or give a local file"
        )
    return (
        f"dataset {dataset!r} at revision {revision!r} is not in the cache and the Hub cannot be "
        f"reached ({type(cause).__name__}): check the network and the proxy settings, or give "
        "a local file"
    )


def _status(error: Exception) -> int | None:
    """The HTTP status behind an error, if the Hub has answered at all."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(status, int):
            return status
        cause = cause.__cause__
    return None


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
