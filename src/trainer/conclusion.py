"""What is made of a run's record when it ends: findings, the page, and the timeline for the loggers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from trainer.logger.base import Picture, Writer

log = logging.getLogger(__name__)


def conclude(folder: Path, report: bool, writers: Sequence[Writer]) -> list[str]:
    """Lines to print at the end of the run in `folder`: what the doctor found, and where the page is.

    The page is written, and a typical step's timeline given to the loggers, if `report` asks for it. The run has ended
    well already: what fails here is told in one of the lines.
    """
    # All this is for the end; the start need not wait for it.
    from trainer.doctor.examine import examine, lines
    from trainer.overlap import evidence

    said: list[str] = []
    try:
        read = evidence.read(folder)
        findings = examine(read)
        said += [f"doctor: {line}" for line in lines(findings)]
        if report:
            from trainer.report import page, timeline

            said.append(f"report: {page.write(read, findings)}")
            image, table = timeline.image(read), timeline.table(read)
            if image is not None and table is not None:
                path = folder / "timeline.png"
                path.write_bytes(image)
                for writer in writers:
                    writer.draw(Picture("timeline", path, *table))
    except Exception as error:  # whatever is wrong with a page, the training is done
        log.debug("conclusion", exc_info=True)
        said.append(f"report: failed with {type(error).__name__}: {error}; scripts/report {folder} tries again")
    return said
