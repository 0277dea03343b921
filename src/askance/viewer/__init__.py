"""The viewer: a web page that shows traces, as one self-contained file or served by a server."""
