"""What the command `netlab` takes, checked as far as that needs no kernel."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

from trainer.lab.layout import LabError, check_hosts, check_name, check_ranks, parse_subnet

DESCRIPTION = """A cluster on one machine: a host is a network namespace, a link has the rate you choose, full duplex.

  netlab up --hosts 4 --rate 1gbit            make it
  netlab run -- python train.py steps=100     the same command on every host, host 0 on this terminal
  netlab rate 100mbit                         change all links, also under a run
  netlab status                               what there is
  netlab down                                 remove it, and end what runs in it
  netlab --hosts 2 --rate 1gbit run -- ...    make it, run, remove it"""
EPILOGUE = """`run` tells train.py launch.nodes, node_rank, processes and rendezvous, where you do not. Every command
finds NETLAB_HOSTS, NETLAB_HOST (from 0), NETLAB_RANKS_PER_HOST, NETLAB_MASTER_ADDR and NETLAB_MASTER_PORT in its
environment. Exit codes: that of the host that failed first, 2 cannot be done, 128 + n stopped by signal n."""
NAME = "lab"
SHAPE = ("hosts", "rate", "ranks_per_host", "subnet")


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the command after `--`. A new lab is wanted where `options.hosts` is set. Raises LabError."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    # Options may stand before or after the verb. Defaults of the parser's own would undo what stood before it.
    defaults = argparse.Namespace(name=None, no_check=False, **dict.fromkeys(SHAPE))
    options = _parser().parse_args(arguments[:at], defaults)
    command = list(arguments[at + 1 :])
    if options.name is not None:
        check_name(options.name)
    if options.verb == "run":
        _check_command(command)
    elif at < len(arguments):
        raise LabError(f"{options.verb}: it takes no command ({' '.join(arguments[at:])}); leave that out, or use run")
    _check_shape(options)
    return options, command


def _check_command(command: Sequence[str]) -> None:
    if not command:
        raise LabError("run: there is no command; write it after --, like netlab run -- python train.py")
    if shutil.which(command[0]) is None:
        # sudo has a PATH of its own, without the user's virtual environment.
        raise LabError(
            f"run: there is no program {command[0]} on the PATH; write its full path, or sudo env PATH=$PATH netlab ..."
        )


def _check_shape(options: argparse.Namespace) -> None:
    """Check the options of a new lab, and that they are there exactly where one is wanted."""
    given = [key for key in SHAPE if getattr(options, key) is not None]
    if options.verb == "up" or (options.verb == "run" and given):
        for key in ("hosts", "rate"):
            if key not in given:
                raise LabError(f"{options.verb}: --{key} is missing; write, say, --hosts 2 --rate 1gbit for a new lab")
        check_hosts(options.hosts)
        options.ranks_per_host = 1 if options.ranks_per_host is None else check_ranks(options.ranks_per_host)
        options.subnet = None if options.subnet is None else parse_subnet(options.subnet)
    elif given:
        raise LabError(f"{options.verb}: --{given[0].replace('_', '-')} is for a new lab; leave it out")


def _parser() -> argparse.ArgumentParser:
    shape = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    shape.add_argument("--hosts", type=int, metavar="H", help="number of hosts, 2 to 64")
    shape.add_argument("--rate", metavar="RATE", help="rate of each link, as tc writes it: 1gbit, 100mbit; or none")
    shape.add_argument("--ranks-per-host", type=int, metavar="R", help="processes on each host [1]")
    shape.add_argument("--subnet", metavar="NET", help="addresses of the hosts [a free 10.77.x.0/24]")
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--name", help=f"name of the lab; several may be up [{NAME}]")
    check = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    check.add_argument("--no-check", action="store_true", help="do not measure a link of the new lab or rate")

    parser = argparse.ArgumentParser(
        "netlab",
        description=DESCRIPTION,
        epilog=EPILOGUE,
        parents=[common, shape, check],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="up|run|rate|status|down")
    verbs.add_parser("up", parents=[common, shape, check], help="make a lab")
    verbs.add_parser("run", parents=[common, shape, check], help="run a command on every host")
    rate = verbs.add_parser("rate", parents=[common, check], help="change the rate of all links")
    rate.add_argument("new_rate", metavar="RATE", help="as tc writes it: 1gbit, 100mbit; or none")
    verbs.add_parser("status", parents=[common], help="show all labs, or the one named")
    down = verbs.add_parser("down", parents=[common], help="remove a lab")
    down.add_argument("--all", action="store_true", help="all labs")
    return parser
