#!/bin/sh
# Installs glmflow from this folder without a network: sh install.sh [VENV]. PYTHON names the interpreter.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/venv}
python=${PYTHON:-python3.11}
"$python" "$here/check.py"
"$python" -m venv "$venv"
set -- --no-index --find-links "$here/wheels" glmflow
if [ -e "$here/constraints.txt" ]; then set -- -c "$here/constraints.txt" "$@"; fi
"$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
for image in "$here"/images/*.tar; do
    [ -e "$image" ] || continue
    if command -v docker >/dev/null; then docker load -i "$image"; else echo "no docker here; later: docker load -i $image"; fi
done
for model in "$here"/models/*; do
    if [ -e "$model" ]; then echo "$venv/bin/glmflow serve $model"; fi
done
