"""What was packed is what is installed, and nothing else is."""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from flows.bundle import BundleParts, write_bundle
from infra.errors import BadSpecError

METADATA = "Metadata-Version: 2.1\nName: glmflow\nVersion: 0.0.1\n"


def write_wheel(folder: Path) -> Path:
    """A wheel named glmflow that pip installs: a module that says where it came from, and a command of that name."""
    folder.mkdir(parents=True)
    path, info = folder / "glmflow-0.0.1-py3-none-any.whl", "glmflow-0.0.1.dist-info"
    files = {
        "packed_module.py": "def main():\n    print('from the bundle')\n",
        f"{info}/METADATA": METADATA,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nglmflow = packed_module:main\n",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return path


def write_parts(root: Path) -> BundleParts:
    write_wheel(root / "wheels")
    model = root / "a model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(bytes(range(256)))
    image = root / "stage.tar"
    with tarfile.open(image, "w") as archive:
        archive.add(model / "config.json", arcname="manifest.json")
    return BundleParts(root / "wheels", {"champion": model}, (image,))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The unpacked folder of a bundle."""
    output = tmp_path / "out/b.tar"
    digest = write_bundle(write_parts(tmp_path / "parts"), output)
    assert digest == hashlib.sha256(output.read_bytes()).hexdigest()
    assert [path.name for path in output.parent.iterdir()] == ["b.tar"]  # nothing is left beside it
    with tarfile.open(output) as archive:
        archive.extractall(tmp_path / "some where", filter="data")
    return tmp_path / "some where/glmflow-bundle"


def check(bundle: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(bundle / "check.py")], capture_output=True, text=True, check=False
    )


def install(bundle: Path, venv: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PIP_CONFIG_FILE": "/dev/null"}
    command = ["sh", str(bundle / "install.sh"), str(venv)]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


def test_every_byte_arrives(bundle: Path, tmp_path: Path):
    assert check(bundle).returncode == 0
    packed, model = bundle / "models/champion", tmp_path / "parts/a model"
    assert {path.name: path.read_bytes() for path in packed.iterdir()} == {
        path.name: path.read_bytes() for path in model.iterdir()
    }
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["models"] == ["champion"]
    present = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert manifest["files"].keys() == present - {"manifest.json"}


def test_it_installs_what_was_packed(bundle: Path, tmp_path: Path):
    done = install(bundle, tmp_path / "venv with a space")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/venv with a space/bin/glmflow serve {bundle}/models/champion" in done.stdout
    said = subprocess.run([str(tmp_path / "venv with a space/bin/glmflow")], capture_output=True, text=True, check=True)
    assert said.stdout == "from the bundle\n"


@pytest.mark.parametrize("change", ["flipped", "removed", "added", "no list"])
def test_a_bundle_that_is_not_as_it_was_packed_is_not_installed(bundle: Path, tmp_path: Path, change: str):
    weights = bundle / "models/champion/model.safetensors"
    match change:
        case "flipped":
            weights.write_bytes(bytes([1, *weights.read_bytes()[1:]]))
        case "removed":
            weights.unlink()
        case "added":
            (bundle / "wheels/planted-1-py3-none-any.whl").write_text("")
        case "no list":
            (bundle / "manifest.json").write_text("[]")
    done = install(bundle, tmp_path / "venv")
    assert done.returncode == 2 and "do not install this one" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "venv").exists()


def test_wheels_without_glmflow_are_refused(tmp_path: Path):
    (tmp_path / "wheels").mkdir()
    with pytest.raises(BadSpecError, match=r"wheels .*want glmflow's own wheel among them, got none"):
        write_bundle(BundleParts(tmp_path / "wheels"), tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


def test_what_is_no_image_is_refused(tmp_path: Path):
    write_wheel(tmp_path / "wheels")
    (tmp_path / "image.tar").write_text("text")
    with pytest.raises(BadSpecError, match=r"image .*image.tar: want an archive as `docker save` writes it"):
        write_bundle(BundleParts(tmp_path / "wheels", images=(tmp_path / "image.tar",)), tmp_path / "b.tar")
