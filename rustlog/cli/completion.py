"""
C{rustlog completion}: scripts that teach a shell the commands and options of this tool.

They are made from the parser itself, so they know exactly what it knows.  Names of topics and groups are
asked of the broker when they are wanted.
"""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

from attrs import frozen

from rustlog.cli.arguments import Commands
from rustlog.cli.session import Session

SHELLS = ("bash", "zsh", "fish")

_EPILOG = """
  bash   source <(rustlog completion bash)        in ~/.bashrc
  zsh    source <(rustlog completion zsh)         in ~/.zshrc, after compinit
  fish   rustlog completion fish | source         in ~/.config/fish/config.fish
"""

_LISTS = {"TOPIC": "rustlog topic list", "GROUP": "rustlog group list"}
"""Commands that list what can stand for an argument; the first line is a title."""


def add_commands(commands: Commands) -> None:
    """Declare it."""
    parser = commands.add(
        "completion",
        print_script,
        "Print a script that lets a shell complete commands.",
        broker=False,
        json=False,
    )
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=SHELLS)


def print_script(session: Session) -> None:
    from rustlog.cli.main import make_parser

    nodes = list(walk(make_parser()))
    session.write({"bash": bash, "zsh": zsh, "fish": fish}[session.options.shell](nodes))


@frozen
class Node:
    """
    A command, or a group of them.

    @ivar path: the words that lead here.
    @ivar commands: those that may follow, and what they do.
    @ivar options: those that it has, and what they mean.
    @ivar choices: what may follow an option.
    @ivar names: what its arguments are, as the help calls them.
    """

    path: tuple[str, ...]
    commands: dict[str, str]
    options: dict[str, str]
    choices: dict[str, tuple[str, ...]]
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        return " ".join((*self.commands, *self.options))


def walk(parser: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Node]:
    """A parser, and all below it."""
    commands: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    names: list[str] = []
    below: dict[str, ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            below = action.choices
            commands = {each.dest: each.help or "" for each in action._choices_actions}
        elif action.option_strings:
            name = action.option_strings[-1]
            options[name] = (action.help or "").replace("'", "")
            if action.choices:
                choices[name] = tuple(map(str, action.choices))
        elif action.choices:
            commands.update(dict.fromkeys(map(str, action.choices), ""))
        else:
            names.append(str(action.metavar))
    yield Node(path, commands, options, choices, tuple(names))
    for name, each in below.items():
        yield from walk(each, (*path, name))


# -- bash and zsh --

# No variable may be called path: in zsh that is where programs are looked for.

_BASH = """\
# Completion of rustlog.  In ~/.bashrc: source <(rustlog completion bash)
_rustlog() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" seen="" words="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$seen ${{COMP_WORDS[i]}}" in
            {paths}) seen="$seen ${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$seen $before" in
{choices}
    esac
    if [ -z "$words" ]; then
        case "$seen" in
{words}
        esac
        case "$current" in
            -*) ;;
            *) case "$seen" in
{names}
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _rustlog rustlog
"""

_ZSH = """\
# Completion of rustlog.  In ~/.zshrc, after compinit: source <(rustlog completion zsh)
autoload -U +X bashcompinit && bashcompinit
"""


def bash(nodes: list[Node]) -> str:
    """A script for bash."""
    return _BASH.format(
        paths="|".join(_quoted(node.path) for node in nodes if node.path),
        choices="\n".join(
            f'        {_quoted((*node.path, option))}) words="{" ".join(choices)}" ;;'
            for node in nodes
            for option, choices in node.choices.items()
        ),
        words="\n".join(f'            {_quoted(node.path)}) words="{node.words}" ;;' for node in nodes),
        names="\n".join(
            f'                {_quoted(node.path)}) words="$words $({_names_of(_LISTS[name])})" ;;'
            for node in nodes
            for name in node.names
            if name in _LISTS
        ),
    )


def zsh(nodes: list[Node]) -> str:
    """A script for zsh, which can do as bash does."""
    return _ZSH + bash(nodes).partition("\n")[2]


def _quoted(path: tuple[str, ...]) -> str:
    """As the function above builds it: with a space before each word."""
    return '"' + "".join(f" {word}" for word in path) + '"'


def _names_of(command: str) -> str:
    return f"{command} 2>/dev/null | tail -n +2 | cut -d ' ' -f 1"


# -- fish --


def fish(nodes: list[Node]) -> str:
    """A script for fish."""
    lines = [
        "# Completion of rustlog.  In ~/.config/fish/config.fish: rustlog completion fish | source",
        "complete -c rustlog -e",
    ]
    for node in nodes:
        condition = _condition(node)
        for name, summary in node.commands.items():
            lines.append(f"complete -c rustlog -f -n '{condition}' -a {name} -d '{summary}'")
        for name, summary in node.options.items():
            values = f" -x -a '{' '.join(node.choices[name])}'" if name in node.choices else ""
            lines.append(f"complete -c rustlog -n '{condition}' -l {name.lstrip('-')} -d '{summary}'{values}")
        lines += [
            f"complete -c rustlog -f -n '{condition}' -a \"({_names_of(_LISTS[name])})\""
            for name in node.names
            if name in _LISTS
        ]
    return "\n".join(lines) + "\n"


def _condition(node: Node) -> str:
    """Whether the cursor is behind this command, and not behind one of those below it."""
    if not node.path:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in node.path)
    below = " ".join(node.commands)
    return f"{seen}; and not __fish_seen_subcommand_from {below}" if below else seen
