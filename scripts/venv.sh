# Sourced by the other scripts: makes .venv in the root of the checkout, and keeps it fresh.
#
#   prepare_venv run|test
#
# Nothing is done when setup.cfg, pyproject.toml, the interpreter and the place of the checkout
# are as they were, so that a second start is immediate.  $PYTHON chooses the interpreter.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

is_recent_python() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        is_recent_python "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11 or later"
        printf '%s\n' "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11; do
        if is_recent_python "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or later found (tried python3, python3.13, python3.12, python3.11); set PYTHON"
}

make_venv() {
    local python="$1" log="$venv.log"
    say "making .venv with $("$python" --version)"
    if ! "$python" -m venv --clear "$venv" >"$log" 2>&1; then
        rm -rf "$venv" "$log"
        die "$python cannot make virtual environments; install its venv module" \
            "(Debian, Ubuntu: apt install python3-venv) or set PYTHON to another one"
    fi
    rm -f "$log"
}

prepare_venv() {
    local purpose="$1" python wanted what="."
    python="$(find_python)"
    wanted="$root $("$python" -c 'import sys; print(sys.executable, sys.version)' | tr '\n' ' ')$(
        cat "$root/setup.cfg" "$root/pyproject.toml" | cksum
    )"
    if [ "$(cat "$venv/rustlog-wanted" 2>/dev/null)" != "$wanted" ]; then
        make_venv "$python"
        printf '%s\n' "$wanted" >"$venv/rustlog-wanted"
    fi
    # What the tests need includes what the broker needs.
    if [ -e "$venv/rustlog-for-test" ] || [ -e "$venv/rustlog-for-$purpose" ]; then
        return
    fi
    [ "$purpose" = test ] && what=".[test]"
    say "installing into .venv (once; this takes a minute)"
    (cd "$root" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$what") ||
        die "installing failed; see above"
    : >"$venv/rustlog-for-$purpose"
}
