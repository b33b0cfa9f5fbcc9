"""vLLM with a tiny model whose weights are made up here: greedy tokens, no network."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from vllm import LLM, SamplingParams  # type: ignore[import-not-found, unused-ignore]

TINY = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "hidden_size": 64, "ffn_dim": 128,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 512, "word_embed_proj_dim": 64,
    "max_position_embeddings": 256, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1,
    "do_layer_norm_before": True, "torch_dtype": "float16",
}  # fmt: skip


def main() -> None:
    """Generate."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(TINY))
        model = LLM(
            model=folder, load_format="dummy", skip_tokenizer_init=True, enforce_eager=True,
            gpu_memory_utilization=0.5, max_model_len=128, seed=1,
        )  # fmt: skip
        settings = SamplingParams(temperature=0, max_tokens=16, detokenize=False, ignore_eos=True)
        prompts = [{"prompt_token_ids": [2, 5, 7, 11]}, {"prompt_token_ids": [2, 13]}]
        for out in model.generate(prompts, settings):
            print(list(out.outputs[0].token_ids))


if __name__ == "__main__":
    main()
