"""The soup and the stack of the census with mergekit, where it is installed."""
import shutil

from files import tensors_of


def mergekit(folder, want):
    """What becomes of each merge: works, the tensors that it loses or has wrong, or refused. `want` has the tensors of each."""
    import torch
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    slices = [(f"{folder}/a", [0, 3]), (f"{folder}/b", [1, 4])]
    configurations = {
        "soup": {
            "merge_method": "linear",
            "models": [{"model": f"{folder}/{one}", "parameters": {"weight": 0.5}} for one in ("a", "b")],
        },
        "stack": {
            "merge_method": "passthrough",
            "slices": [{"sources": [{"model": model, "layer_range": layers}]} for model, layers in slices],
        },
    }
    found = {}
    for name in want:
        configuration = configurations[name]
        out = f"{folder}/mergekit-{name}"
        try:
            options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True)
            run_merge(MergeConfiguration.model_validate({**configuration, "dtype": "float32"}), out, options)
            have = tensors_of(out)
            lost = [one for one in want[name] if one not in have]
            wrong = [
                one
                for one, value in want[name].items()
                if value is not None and one in have and not torch.allclose(value, have[one], rtol=1e-5, atol=1e-6)
            ]
            found[name] = f"loses {len(lost)}" if lost else f"{len(wrong)} wrong" if wrong else "yes"
        except Exception as error:
            found[name] = "refused"
            found[f"{name} because"] = f"{type(error).__name__}: {str(error)[:200]}"
        shutil.rmtree(out, ignore_errors=True)
    return found
