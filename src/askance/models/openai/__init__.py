"""Models on servers with an OpenAI-compatible API: Ollama, vLLM, SGLang, llama.cpp, hosted services.

Only `connection` imports the package `httpx2`, when a model is loaded.
"""
