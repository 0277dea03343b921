"""Models behind servers that speak OpenAI's protocol: Ollama, vLLM, SGLang, llama.cpp, hosted ones.

The package `httpx2` is imported by `connection`, once a model is loaded.
"""
