# serve.py in a container (docs/serve.md). Nobody has built this file yet. No model is in it: mount one at
# /model.safetensors.
FROM python:3.12-slim

RUN useradd --create-home translator
WORKDIR /app
# First torch, which no change of the code installs again, and for the CPU alone: with CUDA it takes some gigabytes more.
RUN pip install --no-cache-dir "torch>=2.10,<2.14" --index-url https://download.pytorch.org/whl/cpu
COPY pyproject.toml README.md LICENSE ./
COPY transformer transformer
COPY scripts scripts
COPY configs configs
COPY data/toy data/toy
COPY data/libreoffice_help data/libreoffice_help
RUN pip install --no-cache-dir -e '.[serve]'
USER translator
EXPOSE 5000
# Reached through Docker's own port, which -p opens to whom you like.
ENTRYPOINT ["python", "scripts/serve.py", "--host", "0.0.0.0", "--checkpoint", "/model.safetensors"]
