"""The stub of ebbtide.native._core against the module as it was built: names, parameters, defaults and docstrings, both
ways. Types are in the stub alone; mypy checks that they are used well."""

import ast
import pathlib

import pytest

from ebbtide import native

_core = native._core
SPECIAL = {"__init__", "__repr__"}  # methods that the stub shows beside those with public names


def is_shown(name):
    return not name.startswith("_") or name in SPECIAL


def parameters(function):
    """Of an ast.FunctionDef: (name, kind, default's source or None) of each, without self."""
    arguments = function.args
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    found = [(each.arg, "plain", default) for each, default in zip(plain, defaults)]
    found += [(each.arg, "keyword", default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [each for each in found if each[0] != "self"]


def of_stub(function):
    return [(name, kind, None if default is None else repr(ast.literal_eval(default))) for name, kind, default in parameters(function)]


def of_module(signature, defaults):
    """nanobind writes the n-th default as a backslash and n."""
    text = signature
    for number in reversed(range(len(defaults or ()))):
        text = text.replace(f"= \\{number}", f"= {number}")
    function = ast.parse(text + ": ...").body[0]
    return [(name, kind, None if default is None else repr(defaults[ast.literal_eval(default)])) for name, kind, default in parameters(function)]


def words(text):
    return " ".join((text or "").split())


def is_setter(node):
    return any(isinstance(each, ast.Attribute) for each in node.decorator_list)


def setters(body):
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and is_setter(node)}


def overloads(body):
    """By name, in their order; a property's setter is left out."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and is_shown(node.name) and not is_setter(node):
            found.setdefault(node.name, []).append(node)
    return found


def check_function(name, stub, built):
    signatures = [each for each in built.__nb_signature__ if not each[0].endswith("(arg: object, /) -> object")]
    assert len(stub) == len(signatures), name
    for node, (signature, doc, defaults) in zip(stub, signatures):
        assert of_stub(node) == of_module(signature, defaults), name
        assert words(ast.get_docstring(node)) == words(doc), name


@pytest.fixture(scope="module")
def stub(checkout):
    text = (pathlib.Path(checkout) / "python" / "ebbtide" / "native" / "_core.pyi").read_text()
    return ast.parse(text)


def test_functions(stub):
    shown = overloads(stub.body)
    built = {name: getattr(_core, name) for name in dir(_core) if is_shown(name) and not isinstance(getattr(_core, name), type)}
    assert sorted(shown) == sorted(built)
    for name, nodes in shown.items():
        check_function(name, nodes, built[name])


def test_classes(stub):
    shown = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    built = {name for name in dir(_core) if isinstance(getattr(_core, name), type)}
    assert sorted(shown) == sorted(built)
    for name, node in shown.items():
        assert words(ast.get_docstring(node)) == words(getattr(_core, name).__doc__), name


def test_members_of_classes(stub):
    for node in stub.body:
        if not isinstance(node, ast.ClassDef):
            continue
        members = vars(getattr(_core, node.name))
        shown = overloads(node.body)
        # Python gives a class without a constructor one of its own, which refuses; the stub does not show it.
        built = [name for name in members if is_shown(name) and type(members[name]).__name__ != "wrapper_descriptor"]
        assert sorted(shown) == sorted(built), node.name
        for name, nodes in shown.items():
            where, member = f"{node.name}.{name}", members[name]
            kinds = {each.id for each in nodes[0].decorator_list}
            assert ("property" in kinds) == isinstance(member, property), where
            if isinstance(member, property):
                assert words(ast.get_docstring(nodes[0])) == words(member.fget.__nb_signature__[0][1]), where
                assert (name in setters(node.body)) == (member.fset is not None), where
            else:
                assert ("staticmethod" in kinds) == (type(member).__name__ == "nb_func"), where
                check_function(where, nodes, getattr(getattr(_core, node.name), name))
