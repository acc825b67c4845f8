"""The machine-readable description of a release: Croissant 1.0 (mlcommons.org/croissant)."""

from collections.abc import Mapping
from typing import Any

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}

_FIELDS = (
    ("id", "sc:Text", False, "First four letters of the domain, conversation number, level."),
    ("domain", "sc:Text", False, "The safety domain."),
    ("level", "sc:Text", False, "L0, L1 or L2."),
    (
        "ground_truth_violations",
        "sc:Integer",
        True,
        "Numbers of the violated rules: the only thing that is scored against.",
    ),
    ("conversation", "sc:Text", False, "`Turn 1 - User: …`, `Turn 1 - Chatbot: …`, and so on."),
    ("policy", "sc:Text", False, "Task instruction, framework (L2) and numbered rules."),
    ("rubric", "sc:Text", False, "What is known about each rule, with evidence, as JSON."),
    ("failure_mode_metadata", "sc:Text", False, "Rules by how they can go wrong, as JSON."),
)

_FORMATS = {".json": "application/json", ".parquet": "application/x-parquet"}


def croissant(
    name: str,
    description: str,
    version: str,
    license: str | None,
    date: str | None,
    files: Mapping[str, tuple[str, int]],
) -> dict[str, Any]:
    """Describe a release.

    Args:
        name: Of the dataset.
        description: In a sentence or two.
        version: Of the release.
        license: Its licence, as a name or an address; left out if there is none.
        date: When it is published, as `2026-11-30`; left out if not given.
        files: File name -> SHA-256 and size in bytes; `benchmark.parquet` among them.
    """
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": description,
        "version": version,
        **({"license": license} if license else {}),
        **({"datePublished": date} if date else {}),
        "citeAs": f"{name}, version {version}. A dataset of the form of SafePyramid "
        "(arXiv:2606.29887).",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file,
                "name": file,
                "contentUrl": file,
                "contentSize": f"{size} B",
                "encodingFormat": _FORMATS[file[file.rindex(".") :]],
                "sha256": digest,
            }
            for file, (digest, size) in sorted(files.items())
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "cases",
                "name": "cases",
                "description": "One conversation with one policy.",
                "key": {"@id": "cases/id"},
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"cases/{column}",
                        "name": column,
                        "description": what,
                        "dataType": kind,
                        **({"repeated": True} if repeated else {}),
                        "source": {
                            "fileObject": {"@id": "benchmark.parquet"},
                            "extract": {"column": column},
                        },
                    }
                    for column, kind, repeated, what in _FIELDS
                ],
            }
        ],
    }
