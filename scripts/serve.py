"""Serves translators by LibreTranslate's API: `python scripts/serve.py [checkpoint=RUN|EXPORT|[A,B]] [port=5000]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.server.settings import ServerSettings

Job = tuple["ServerSettings", list[Path], bytes | None]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.checkpoints import announce_checkpoint, find_checkpoints
    from transformer.config import from_part
    from transformer.data.printable import say

    checkpoints = find_checkpoints(config["checkpoint"], Path(config["runs"]))
    from transformer.server.settings import ServerSettings, check_installed, read_key

    settings = from_part(ServerSettings, config)
    check_installed()
    key = read_key(settings.api_key_file)
    if not settings.is_local and key is None:
        say(f"host={settings.host}: anyone who can reach this port can translate; api_key_file= requires a key")
    announce_checkpoint(config, checkpoints[0])
    return settings, checkpoints, key


def serve(job: Job) -> None:
    from transformer.cli.checkpoints import model_name, score_on
    from transformer.data.printable import say
    from transformer.files import run_of
    from transformer.server.api import Api
    from transformer.server.app import make_app
    from transformer.server.batcher import Batcher
    from transformer.server.directions import load_directions
    from transformer.server.run import address, example, listen, run

    settings, checkpoints, key = job
    with listen(settings) as listener:
        named = [(model_name(path), path) for path in checkpoints]
        directions = load_directions(named, settings)
        for direction in directions.values():
            score = score_on(direction.test_name, run_of(direction.checkpoint))
            say(f"{direction.languages}: {', '.join([direction.name, *score])}")
        url = address(listener)
        say(f"try: {example(url, next(iter(directions)), settings.api_key_file)}")
        say(f"serving at {url} (Ctrl-C ends it)")
        batcher = Batcher(settings.search, settings.batch_tokens, settings.split_lines, settings.max_waiting)
        run(make_app(Api(directions, batcher, settings, key)), listener, settings)


if __name__ == "__main__":
    launch(read, serve, config_name="serve")
