# serve.py in a container (docs/serve.md). Nobody has built this file yet. No model is in it: mount one at /model, a
# .safetensors or an export to ctranslate2.
FROM python:3.12-slim-bookworm

RUN useradd --create-home translator
WORKDIR /app
# First torch, which no change of the code installs again, and for the CPU alone: with CUDA it takes some gigabytes more.
RUN pip install --no-cache-dir "torch==2.13.*" --index-url https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir "ctranslate2==4.8.*"
COPY pyproject.toml README.md LICENSE ./
COPY transformer transformer
COPY scripts scripts
COPY configs configs
COPY data/toy data/toy
COPY data/libreoffice_help data/libreoffice_help
RUN pip install --no-cache-dir -e '.[serve]'
USER translator
EXPOSE 5000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=5)"]
# Reached through Docker's own port, which -p opens to whom you like.
ENTRYPOINT ["python", "scripts/serve.py", "--host", "0.0.0.0", "--checkpoint", "/model"]
