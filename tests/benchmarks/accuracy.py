"""``make accuracy``: measure the filter on real mail, and write ACCURACY.md.

    python -m tests.benchmarks.accuracy DIR [SECTION|STREAM ...]

DIR holds trec07p-20k.tar.xz, trec07p-b.tar.xz, spamassassin.tar.xz and sms/spam_train.tsv. With sections or
streams named only these are measured, and their tables are printed instead; streams whose archive is missing are
then skipped. A stream goes by the last word of its name; ``both`` is trec07p-20k, then trec07p-b, and
``trec07p-b-corrected`` is trec07p-b with the labels of docs/corrected-labels.tsv. The section ``new-kinds`` also
uses lists-2019-2022.tar.xz and everyday-a.tar.xz, and says what it had to leave out.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.benchmarks import new_kinds
from tests.benchmarks.page import page
from tests.benchmarks.plan import BOTH, CORRECTED, IN_TIME, RUNS, SECTIONS, SHUFFLED, SMS, STREAMS, TREC, TREC_B
from tests.benchmarks.runs import Run, make_all
from tests.harness.corpora import unpack

PAGE = Path(__file__).with_name("ACCURACY.md")
NEW_KINDS = "new-kinds"
CORRECTED_LABELS = Path(__file__).parents[2] / "docs" / "corrected-labels.tsv"

TEXTS = "sms/spam_train.tsv"
ARCHIVES = {
    TREC: ("trec07p-20k.tar.xz",),
    TREC_B: ("trec07p-b.tar.xz",),
    BOTH: ("trec07p-20k.tar.xz", "trec07p-b.tar.xz"),
    IN_TIME: ("spamassassin.tar.xz",),
    SHUFFLED: ("spamassassin.tar.xz",),
    SMS: (TEXTS,),
}
ARCHIVES |= {corrected: ARCHIVES[stream] for stream, corrected in CORRECTED.items()}
"""By stream the files that it is made of."""

STREAM_WORDS = {"both" if stream == BOTH else stream.split()[-1]: stream for stream in (*STREAMS, BOTH, SMS)}
STREAM_WORDS |= {
    f"{word}-corrected": CORRECTED[stream] for word, stream in STREAM_WORDS.items() if stream in CORRECTED
}


def main() -> None:
    """Unpack the archives, make the runs, write or print the page."""
    parser = argparse.ArgumentParser(prog="accuracy")
    parser.add_argument("corpora", type=Path)
    parser.add_argument("only", nargs="*", type=section_or_stream, metavar="SECTION|STREAM")
    options = parser.parse_args()
    absent = missing_files(options.corpora)
    if absent and not options.only:
        sys.exit(f"accuracy: {options.corpora} has no {', '.join(absent)}")
    for name in absent if options.only != [NEW_KINDS] else ():
        print(f"skipped, because {options.corpora} has no {name}: its streams", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        words = [word for word in options.only if word != NEW_KINDS]
        streams = unpacked(options.corpora, Path(folder), absent) if words or not options.only else {}
        if words:
            print(page(make_all(chosen(words, streams), streams)))
        if not options.only:
            write(streams, PAGE)
        if NEW_KINDS in options.only:
            print(new_kinds.section(corpora_of_kinds(options.corpora, Path(folder))))
        elif not options.only:
            with PAGE.open("a", encoding="utf-8") as file:
                file.write("\n" + new_kinds.section(corpora_of_kinds(options.corpora, Path(folder))))


def section_or_stream(word: str) -> str:
    """Return the word if it names something to measure."""
    names = [*SECTIONS, NEW_KINDS, *STREAM_WORDS]
    if word not in names:
        raise argparse.ArgumentTypeError(f"{word} is none of {', '.join(names)}")
    return word


def missing_files(corpora: Path) -> list[str]:
    """Return the names of the files that ``corpora`` lacks."""
    names = dict.fromkeys(name for files in ARCHIVES.values() for name in files)
    return [name for name in names if not (corpora / name).is_file()]


def unpacked(corpora: Path, folder: Path, absent: Sequence[str]) -> dict[str, Path]:
    """The index of each stream that nothing is ``absent`` of, in ``folder``."""
    names = dict.fromkeys(name for files in ARCHIVES.values() for name in files if name not in absent)
    for name in names:
        if name != TEXTS:
            unpack(corpora / name, folder)
    paths = {
        TREC: folder / "trec07p-20k" / "index.tsv",
        TREC_B: folder / "trec07p-b" / "index.tsv",
        BOTH: folder / "both.tsv",
        IN_TIME: folder / "spamassassin" / "index_2002h2.tsv",
        SHUFFLED: folder / "spamassassin" / "index_shuffled.tsv",
        SMS: corpora / TEXTS,
    }
    streams = {stream: path for stream, path in paths.items() if not set(ARCHIVES[stream]) & set(absent)}
    if BOTH in streams:
        streams[BOTH].write_text("".join(absolute_lines(paths[TREC])) + "".join(absolute_lines(paths[TREC_B])))
    return streams | {
        CORRECTED[stream]: correct(index) for stream, index in streams.items() if stream in CORRECTED
    }


def corpora_of_kinds(corpora: Path, folder: Path) -> dict[str, Path]:
    """The index of each corpus of ``new_kinds`` that is there, in ``folder``, with corrected labels."""
    indexes = {}
    for name in new_kinds.CORPORA:
        archive = corpora / f"{name}.tar.xz"
        if not archive.is_file():
            print(f"skipped, because {corpora} has no {archive.name}: its kinds", file=sys.stderr)
            continue
        if not (folder / name).is_dir():
            unpack(archive, folder)
        indexes[name] = correct(folder / name / "index.tsv")
    return indexes


def correct(index: Path) -> Path:
    """Write the index of a mail corpus with corrected labels beside it, and return its path."""
    with CORRECTED_LABELS.open(newline="") as file:
        corrections = {(row["corpus"], row["number"]): row for row in csv.DictReader(file, delimiter="\t")}
    lines = []
    for line in index.read_text().splitlines():
        label, path = line.split("\t")
        message = index.parent / path
        row = corrections.get((message.parents[1].name.partition("-")[0], message.stem.lstrip("0")))
        if row and row["published"] != label:
            raise ValueError(f"{path} has the label {label}, which {CORRECTED_LABELS} does not say")
        lines.append(f"{row['corrected'] if row else label}\t{path}\n")
    corrected = index.with_stem(f"{index.stem}_corrected")
    corrected.write_text("".join(lines))
    return corrected


def absolute_lines(index: Path) -> Iterable[str]:
    """The lines of an index, with paths that do not depend on its folder."""
    for line in index.read_text().splitlines():
        label, _, path = line.partition("\t")
        yield f"{label}\t{index.parent.absolute() / path}\n"


def chosen(words: Sequence[str], streams: Mapping[str, Path]) -> list[Run]:
    """The runs of the named sections and streams."""
    sections = [word for word in words if word in SECTIONS]
    named = {STREAM_WORDS[word] for word in words if word in STREAM_WORDS} or set(streams)
    runs = dict.fromkeys(run for section in sections or SECTIONS for run in SECTIONS[section])
    wanted = named & set(streams)
    return [run for run in runs if run.stream in wanted]


def write(streams: Mapping[str, Path], to: Path) -> None:
    """Make all runs over the streams' indexes, and write their page."""
    to.write_text(page(make_all(RUNS, streams)), encoding="utf-8")


if __name__ == "__main__":
    main()
