"""Check the package for import cycles: print every cycle, and exit with 1 if there is one.

    python scripts/check_cycles.py [PACKAGE]

A cycle is a set of modules that all import each other, directly or through other modules of the set. Imports
inside functions and under TYPE_CHECKING count too. Each cycle is printed with its imports and their lines.
"""

import sys

import grimp


def cycles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the strongly connected components with several modules, each sorted (Tarjan's algorithm)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: list[str] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_modules.append(module)
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            if imported not in number:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in open_modules:
                lowest[module] = min(lowest[module], number[imported])
        if lowest[module] == number[module]:
            at = open_modules.index(module)
            if len(open_modules) - at > 1:
                found.append(sorted(open_modules[at:]))
            del open_modules[at:]

    for module in sorted(graph.modules):
        if module not in number:
            visit(module)
    return sorted(found)


def describe(graph: grimp.ImportGraph, cycle: list[str]) -> str:
    """Return the imports of a cycle as text, one per line."""
    lines = [f"a cycle of {len(cycle)} modules:"]
    for importer in cycle:
        for imported in sorted(graph.find_modules_directly_imported_by(importer) & set(cycle)):
            for detail in graph.get_import_details(importer=importer, imported=imported):
                lines.append(f"  {importer}, line {detail['line_number']}: {detail['line_contents']}")
    return "\n".join(lines)


def main(package: str = "askance") -> int:
    """Check the package, and return the exit code."""
    graph = grimp.build_graph(package, cache_dir=None)
    found = cycles(graph)
    for cycle in found:
        print(describe(graph, cycle))
    print(f"{package}: {len(found)} import cycles among {len(graph.modules)} modules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
