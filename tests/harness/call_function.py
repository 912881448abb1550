"""One rank that calls a function: call_function.py FILE FUNCTION JOB_FOLDER."""

import importlib.util
import os
import pickle
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load(path):
    # As for `python path`: modules beside it can be imported.
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("rank_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rank_program"] = module
    spec.loader.exec_module(module)
    return module


def main():
    program, function, folder = sys.argv[1:]
    # This folder has modules that no program means; the root comes last, so that installed
    # packages go before the checkout's.
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    sys.path.append(ROOT)
    with open(os.path.join(folder, "arguments.pickle"), "rb") as file:
        arguments = pickle.load(file)
    result = getattr(load(program), function)(*arguments)
    path = os.path.join(folder, "result_{}.pickle".format(os.environ.get("RANK_ID", "0")))
    with open(path, "wb") as file:
        pickle.dump(result, file)


main()
