"""`translator serve`: translators behind HTTP, with LibreTranslate's API and a page that translates."""

from typing import Annotated

from cyclopts import Parameter

from transformer.cli.app import KeepFlags, MachineFlags, SearchFlags
from transformer.cli.models import announce_checkpoint, find_checkpoints, model_name, score_on
from transformer.inference.settings import KeepSettings, SearchSettings
from transformer.machine import MachineSettings
from transformer.printing import say
from transformer.run import Run
from transformer.tools.server.settings import ServerSettings, check_installed, read_key

# As `Flags`, but --page also has --no-page: without either, it depends on the key.
ServerFlags = Annotated[ServerSettings, Parameter(name="*", negative=None)]


def serve(
    *,
    checkpoint: list[str] | None = None,
    settings: ServerFlags = ServerSettings(),
    search: SearchFlags = SearchSettings(),
    keep: KeepFlags = KeepSettings(),
    machine: MachineFlags = MachineSettings(),
) -> None:
    """Serves translators over HTTP, by default at http://127.0.0.1:5000/.

    Parameters
    ----------
    checkpoint
        a run's folder, .safetensors or .ckpt, a Hugging Face folder, or an export to ctranslate2; all its directions
        are served; may be given several times, for several models; by default the newest finished run in runs/
    """
    check_installed()
    key = read_key(settings.api_key_file)
    asked = checkpoint or []
    checkpoints = find_checkpoints(asked)
    if not settings.is_local and key is None:
        say(f"--host {settings.host}: anyone who can reach this port can translate; --api-key-file requires a key")
    announce_checkpoint(next(iter(asked), None), checkpoints[0])

    from transformer.tools.server.api import Api
    from transformer.tools.server.app import make_app
    from transformer.tools.server.batcher import Batcher
    from transformer.tools.server.listening import address, example, listen, run
    from transformer.tools.server.served import load_directions

    with listen(settings) as listener:
        models = [(model_name(path), path) for path in checkpoints]
        directions = load_directions(models, settings, search, machine, keep)
        for direction in directions.values():
            score = score_on(direction.test_name, Run.open(direction.checkpoint))
            say(f"{direction.languages}: {', '.join([direction.name, *score])}")
        url = address(listener)
        say(f"try: {example(url, next(iter(directions)), settings.api_key_file)}")
        say(f"serving at {url} (Ctrl-C ends it)")
        batcher = Batcher(search, settings.batch_tokens, settings.split_lines, settings.max_waiting)
        run(make_app(Api(directions, batcher, settings, key)), listener, settings)
