r"""Writes docs/demo.html anew, with the weights that are in it: `python docs/demo.py`.

This is needed after any change of the page (transformer/tools/page/html). `python docs/pictures/page.py` then takes its
pictures anew. The model in it was distilled (Kim and Rush 2016): the everyday model of docs/control.md translated the
German side of its own training pairs, TRAIN.de, and a small model learned from these translations.

```bash
python scripts/translate.py --checkpoint EVERYDAY --source de --method greedy --input TRAIN.de --output TRAIN.en
python scripts/train.py data=files data.train=TRAIN data.validation=VALIDATION data.test=TEST data.robust=0.2 \
    data.batch_tokens=2048 tokenizer=bpe tokenizer.vocabulary_size=2500 model=tiny model.dropout=0.0 \
    training=standard training.warmup_steps=300 training.initial_embeddings=cooccurrence \
    training.guided_alignment.weight=1 training.averaging.kind=exponential training.validate_every=1000 \
    search.length_penalty=1.0 trainer=cpu machine.threads=1 trainer.max_steps=7146
python scripts/export.py page --checkpoint RUN --no-snapshots --text "Ich habe dir gestern einen Brief geschrieben." \
    --title "Everyday sentences, translated in view (learned from Tatoeba, CC BY 2.0 FR)" --examples TEST.de \
    --output docs/demo.html
```
"""

from pathlib import Path

from transformer.files import atomic_write
from transformer.tools.page.export import with_current_program

if __name__ == "__main__":
    demo = Path(__file__).with_name("demo.html")
    atomic_write(demo, with_current_program(demo.read_text(encoding="utf-8")).encode())
