"""Models on servers with an OpenAI-compatible API: Ollama, vLLM, SGLang, llama.cpp, hosted services.

Only the module `connection` imports the package `httpx2`, and only when a model is loaded.
"""
