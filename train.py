"""Compose, resolve, launch: `python train.py parallel=ddp comm=allreduce optimizer.lr=0.1`.

Exit codes: 0 done, 1 a worker failed, 2 the configuration cannot run, 128 + n stopped with a checkpoint
by signal n: 130 by SIGINT, 143 by SIGTERM, 138 and 140 by SIGUSR1 and SIGUSR2.
"""

# Workers import this file too, so what only the launcher needs is imported in main.

import contextlib
import logging
import os
import pathlib
import sys
from collections.abc import Iterator


def main() -> int:
    """Run the command line in sys.argv; the exit code."""
    # Errors come to us as they are; without this Hydra prints them in its own form and exits.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Read when torch is imported. Sockets that close are told in our words.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

    import hydra
    import torch
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from hydra.types import RunMode
    from omegaconf import DictConfig
    from yaml import YAMLError

    from trainer import meeting, nursery, place, stamp
    from trainer.config import explain, resolve, sweep_of
    from trainer.errors import Diverged, LostPeer
    from trainer.launch import Stopped, WorkerFailed, describe, launch
    from trainer.nccl.command_line import as_text
    from trainer.preset import compose as presets
    from trainer.run import Run
    from trainer.spec import ConfigError
    from trainer.sweep import job as sweep_job

    conf = pathlib.Path(__file__).parent / "conf"
    codes = [0]

    def fail(code: int, reason: object) -> None:
        codes.append(code)
        # Workers that are refused are refused alike, so one speaks; once they have met, each has a log of its own.
        if place.is_first(os.environ) or torch.distributed.is_initialized():
            print(reason, file=sys.stderr)

    @hydra.main(version_base="1.3", config_path="conf", config_name="config")
    def task(cfg: DictConfig) -> float | None:
        """What the run is ranked by, for a sweeper that learns from it."""
        # Where the process was started by another program, as those of submitit are.
        place.join_srun(os.environ)
        job = HydraConfig.get()
        folder = pathlib.Path(job.runtime.output_dir) if job.mode == RunMode.MULTIRUN else None
        if not cfg.dry_run and place.launcher(os.environ) == "train":
            nursery.open_early()

        def prepare(resume: pathlib.Path | None = None) -> Run:
            with _aloud():
                return resolve(cfg, folder, resume)

        def conduct(run: Run) -> None:
            run.tune.conduct(run, launch)

        try:
            if folder is not None and not cfg.dry_run:
                first = place.is_first(os.environ, cfg.launch.node_rank)
                told = job.overrides.task
                return sweep_job.run(folder, told, sweep_of(cfg), prepare, conduct, fail, keeps=first)
            if folder is None:
                sweep_of(cfg).refuse_alone()
            run = prepare()
            if cfg.dry_run:
                print(describe(run), end="")
            else:
                conduct(run)
        except ConfigError as error:
            fail(2, error)
        except (WorkerFailed, Diverged, LostPeer) as error:
            fail(1, error)
        except Stopped as stop:
            # Ends a sweep as well; Hydra lets nothing but this through.
            sys.exit(128 + stop.number)
        return None

    sys.argv[1:] = as_text(sys.argv[1:])
    presets.register()
    try:
        place.join_srun(os.environ)
        # Launchers of several nodes may have agreed on a stamp, and so on a folder.
        started = os.environ.get(stamp.VARIABLE) or stamp.now()
        if place.launcher(os.environ) == "other":
            started = meeting.agree("started", started)
        os.environ[stamp.VARIABLE] = started
        task()
    except ConfigError as error:
        fail(2, error)
    except (HydraException, RecursionError, ValueError, YAMLError) as error:
        line = explain(error, sys.argv[1:], conf)
        if line is None:
            raise
        fail(2, line)
    finally:
        nursery.close()
    return max(codes)


@contextlib.contextmanager
def _aloud() -> Iterator[None]:
    """Within it what the package logs is said on the terminal, by one of several processes that would all say it."""
    from trainer import place

    logger, handler = logging.getLogger("trainer"), logging.StreamHandler()
    level, logger.propagate = logger.level, False
    logger.setLevel(logging.INFO if place.is_first(os.environ) else logging.ERROR)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = True


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # Before there was anything to save.
        sys.exit(130)
