"""One table of the measurements of `gpu.sh`: python benchmarks/summary.py RESULTS PART …

Reads PART.json of each part if it exists; writes RESULTS/table.md and RESULTS/rows.json, and shows the table.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# The values of a row that a table shows, if the row has them.
RESULTS = {
    "target_tokens_per_second": "{:,.0f} target tokens/s",
    "sentences_per_second": "{:,.0f} sentences/s",
    "warm_ms": "{:,.0f} ms for one sentence",
}


def lines(measured: Row) -> Iterator[list[str]]:
    """The cells of each row of a part."""
    for row in measured["rows"]:
        what = measured["what"] + (f", beam {row['beam']}" if "beam" in row else "")
        if "minutes" in row:
            reached = (
                f"{minutes:.1f} minutes to BLEU {target}" if minutes else f"BLEU {target} not reached"
                for target, minutes in row["minutes"].items()
            )
            result, precision = f"{', '.join(reached)}; best {row['best_bleu']:.1f}", "of the preset"
        else:
            result = ", ".join(shown.format(row[key]) for key, shown in RESULTS.items() if key in row)
            matmul = row.get("matmul", "default")
            precision = row["precision"] + {"default": "", "high": ", TF32"}.get(matmul, f", {matmul}")
        memory = f"{row['peak_mb']:,.0f} MB" if "peak_mb" in row else ""
        if "learning_rate" in row:
            what += f", learning rate {row['learning_rate']:g}"
        yield [what, "" if "minutes" in row else measured["size"], row["system"], precision, result, memory]


def main(folder: Path, parts: list[str]) -> None:
    found = [json.loads(file.read_text()) for part in parts if (file := folder / f"{part}.json").exists()]
    if not found:
        sys.exit("nothing was measured")
    versions = found[0]["versions"]
    table = [["measured", "size", "system", "precision", "result", "peak memory"], ["---"] * 6]
    for measured in found:
        table += lines(measured)
    about = "; ".join(f"{name} {value}" for name, value in versions.items())
    text = "\n".join([f"{about}.", "", *(f"| {' | '.join(cells)} |" for cells in table)]) + "\n"
    (folder / "table.md").write_text(text)
    rows = [{"what": one["what"], "size": one["size"]} | row for one in found for row in one["rows"]]
    (folder / "rows.json").write_text(json.dumps({"versions": versions, "rows": rows}, indent=2))
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
