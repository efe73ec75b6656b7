# Sourced by scripts/train and scripts/test: makes .venv once for each state of the constraints, and activates it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

set_up() {
  local stamp python candidate
  stamp=$(cat "$root/constraints.txt" "$root/pyproject.toml" | cksum)
  if [ "$(cat "$root/.venv/stamp" 2>/dev/null)" != "$stamp" ]; then
    python=
    for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
      if "$candidate" -c 'import sys; raise SystemExit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        python=$candidate
        break
      fi
    done
    if [ -z "$python" ]; then
      echo "set-up: no Python from 3.10 to 3.13 is on the PATH; install one, for example python3.12" >&2
      exit 2
    fi
    echo "set-up: making .venv with $("$python" --version) (PyTorch is large: this takes some minutes, once)"
    "$python" -m venv "$root/.venv"
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check \
      --constraint "$root/constraints.txt" --editable "$root[dev]"
    echo "$stamp" > "$root/.venv/stamp"
  fi
  # shellcheck disable=SC1091
  source "$root/.venv/bin/activate"
}
