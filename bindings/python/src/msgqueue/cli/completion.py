"""The command `completion`: scripts for bash, zsh and fish, made from the table of commands."""

from __future__ import annotations

import argparse
from argparse import Namespace

from . import arguments, exits, tables
from .arguments import COMMANDS, Command

_BASH = """\
# Completion of msgq for bash.
_msgq() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in
  -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
  *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _msgq msgq
"""
_ZSH = """\
#compdef msgq
# Completion of msgq for zsh.
_msgq() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case $words[2] in
{cases}
  esac
}}
if [ "$funcstack[1]" = _msgq ]; then _msgq "$@"; else compdef _msgq msgq; fi
"""


def script(given: Namespace) -> int:
    """Prints the script."""
    tables.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[given.shell]())
    return exits.DONE


def _options(command: Command) -> list[tuple[str, str, bool]]:
    """Returns the long options of a command: name, help, and whether it takes a value."""
    actions = next(
        action for action in arguments.parser(command)._actions if isinstance(action, argparse._SubParsersAction)
    )
    found = []
    for action in actions.choices[command.name]._actions:
        name = next((each for each in action.option_strings if each.startswith("--")), None)
        if name is not None and action.help not in (None, argparse.SUPPRESS):
            found.append((name, str(action.help), action.nargs != 0))
    return found


def _bash() -> str:
    cases = "\n".join(
        f'  {command.name}) options="{" ".join(name for name, _, _ in _options(command))}" ;;' for command in COMMANDS
    )
    return _BASH.format(commands=" ".join(command.name for command in COMMANDS), cases=cases)


def _zsh() -> str:
    commands = "\n".join(f"    {_quoted(f'{command.name}:{command.help}')}" for command in COMMANDS)
    cases = []
    for command in COMMANDS:
        options = " ".join(
            _quoted(f"{name}[{text.translate(_BRACKETS)}]{':value:_files' if has_value else ''}")
            for name, text, has_value in _options(command)
        )
        cases.append(f"  {command.name}) _arguments {options} '*:file:_files' ;;")
    return _ZSH.format(commands=commands, cases="\n".join(cases))


def _fish() -> str:
    lines = ["# Completion of msgq for fish.", "complete -c msgq -n __fish_use_subcommand -l help -d 'show the help'"]
    for command in COMMANDS:
        lines.append(f"complete -c msgq -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.help)}")
        lines += [
            f"complete -c msgq -n '__fish_seen_subcommand_from {command.name}' -l {name[2:]}"
            f"{' -r' if has_value else ''} -d {_quoted(text)}"
            for name, text, has_value in _options(command)
        ]
    return "\n".join(lines) + "\n"


_BRACKETS = str.maketrans({"[": "(", "]": ")", ":": ";"})


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("'", "") + "'"
