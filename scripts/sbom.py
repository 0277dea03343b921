"""Write the bill of materials in CycloneDX: the packages of lock.txt, and the files of askance but its code.

Run it as `python scripts/sbom.py > FILE`.
"""

import json
import re
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "askance"


def licence(package: str) -> str:
    """Return the licence that the metadata of an installed package names, or an empty string."""
    if not (installed := [*metadata.distributions(name=package)]):
        return ""
    fields = installed[0].metadata
    classes = [each.split(" :: ")[-1] for each in fields.get_all("Classifier", []) if "License ::" in each]
    return fields["License-Expression"] or ", ".join(classes) or (fields["License"] or "").partition("\n")[0]


def licence_of_file(name: str) -> str:
    """Return the licence of a file of askance, from the first row of docs/licences.md with its folder."""
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `src/askance/(\S*)` \| ([^|]+?) \|", page, flags=re.MULTILINE)
    return str(next(licence for folder, licence in rows if name.startswith(folder)))


def component(name: str, digest: str, licence: str, **fields: str) -> dict[str, object]:
    """Return a component with its hash and licence."""
    licences = {"licenses": [{"license": {"name": licence}}]} if licence else {}
    return {"name": name, "hashes": [{"alg": "SHA-256", "content": digest}], **licences, **fields}


def bill() -> str:
    """Return the bill of materials. It has no time and no serial number, so it is the same each time."""
    components, lock = [], (ROOT / "lock.txt").read_text(encoding="utf-8")
    for name, version, digest in re.findall(r"^(\S+)==(\S+) --hash=sha256:(\w+)", lock, flags=re.MULTILINE):
        purl = f"pkg:pypi/{name}@{quote(version)}"
        components.append(component(name, digest, licence(name), type="library", version=version, purl=purl))
    for path in sorted(SHIPPED.rglob("*")):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            name, digest = path.relative_to(SHIPPED).as_posix(), sha256(path.read_bytes()).hexdigest()
            components.append(component(f"askance/{name}", digest, licence_of_file(name), type="file"))
    subject = {"type": "application", "name": "askance", "version": metadata.version("askance")}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return json.dumps(document | {"metadata": {"component": subject}, "components": components}, indent=1)


if __name__ == "__main__":
    print(bill())
