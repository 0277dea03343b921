"""Adapters between engines and other programs: LangChain, MCP and OpenTelemetry. Each needs its extra."""
