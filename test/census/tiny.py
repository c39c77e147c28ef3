"""Tiny configurations of every family: the family's own defaults with small sizes."""
import inspect

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

LAYERS = 4

#: Sizes by field, for a decoder, and for towers of images and sound, which are never run.
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "n_embd": 32, "d_model": 32, "dim": 32, "word_embed_proj_dim": 32,
    "embedding_size": 32, "embed_dim": 32, "emb_dim": 32, "output_dim": 32, "out_hidden_size": 32,
    "projection_dim": 32, "projection_hidden_size": 32,
    "num_hidden_layers": LAYERS, "n_layer": LAYERS, "n_layers": LAYERS, "num_layers": LAYERS, "depth": LAYERS,
    "decoder_layers": LAYERS, "encoder_layers": 2, "num_decoder_layers": LAYERS, "num_encoder_layers": 2,
    "num_blocks": LAYERS, "codebook_dim": 32, "adapter_in_dim": 32, "adapter_input_size": 32,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "decoder_attention_heads": 4,
    "encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "num_encoder_attention_heads": 4,
    "num_key_value_heads": 2, "num_kv_heads": 2, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
    "num_global_key_value_heads": 2,
    "head_dim": 8, "global_head_dim": 8, "swa_head_dim": 8, "swa_v_head_dim": 8, "kv_channels": 8,
    "intermediate_size": 48, "ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_ffn_dim": 48, "n_inner": 48, "d_ff": 48,
    "ffn_hidden_size": 48, "mlp_dim": 48, "intermediate_size_mlp": 48, "d_inner": 48, "dff": 48, "d_kv": 8,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2,
    "num_experts_per_token": 2, "moe_k": 2, "moe_topk": 2, "top_k_experts": 2, "n_shared_experts": 1,
    "moe_num_shared_experts": 1, "zero_expert_num": 1, "expert_ffn_hidden_size": 16,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16,
    "shared_intermediate_size": 16, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "n_group": 1, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 8, "qk_head_dim": 16, "first_k_dense_replace": 1,
    "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4, "o_lora_rank": 8, "o_groups": 1,
    "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "seq_length": 64, "max_seq_len": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "unk_token_id": 3, "decoder_start_token_id": 1,
    "sliding_window": 16, "attention_window_size": 16, "rotary_dim": 4,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "mamba_d_state": 4, "mamba_dt_rank": 4, "mamba_expand": 2, "mamba_n_heads": 8, "mamba_d_head": 8,
    "mamba_n_groups": 1, "mamba_d_ssm": 64, "mamba_ngroups": 1, "n_mamba_heads": 2, "mamba_headdim": 32,
    "state_size": 4, "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 1, "ssm_state_size": 4,
    "time_step_rank": 4, "use_mamba_kernels": False, "chunk_size": 8, "mamba_chunk_size": 8,
    "lru_width": 32, "attention_hidden_size": 32, "conv_dim": 32, "block_dim": 32, "block_ff_dim": 48,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 64, "num_kv_shared_layers": 0, "laurel_rank": 4,
    "image_size": 32, "patch_size": 8, "num_position_embeddings": 16, "num_mel_bins": 16, "max_source_positions": 64,
    "max_target_positions": 64, "num_channels": 3, "d_inner_dim": 48, "adapter_len": 4,
}

#: What a family needs beside, or instead.
FAMILY = {
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "chameleon": {"vocabulary_map": {"<image>": 5, "IMGIMGAA": 6}},
    "dbrx": {"attn_config": None, "ffn_config": None, "max_seq_len": 64, "d_model": 32, "n_heads": 4},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    "glm5_next": {"qk_rope_head_dim": 0},
    "molmo2_adapter": {"vision_feature_layer": [3, 1]},
    "cpmant": {"dim_head": 8, "dim_ff": 48, "position_bias_num_buckets": 32, "position_bias_max_distance": 64},
    "dory": {"n_input_layers": 1, "n_output_layers": 1, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "gemma3n_text": {"intermediate_size": [48] * LAYERS, "altup_num_inputs": 2},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
    "inkling2_loop_text": {"unpadded_vocab_size": 64, "rel_extent": 16},
    "inkling2_text": {"unpadded_vocab_size": 64, "rel_extent": 16},
    "inkling2_vision": {"text_hidden_size": 32},
    "kimi_linear": {"linear_head_dim": 8},
    "roc_bert": {"pronunciation_embed_dim": 8, "pronunciation_vocab_size": 16, "shape_embed_dim": 8, "shape_vocab_size": 16},
    "cohere2_vision": {"alignment_intermediate_size": 48},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    "muse_glimmer": {"projector_hidden_size": 32},
    "muse_spark": {"projector_hidden_size": 32},
    "muse_spark_text": {"moe_hidden_size": 32},
    "mamba2": {"head_dim": 16},
    "lfm2": {"block_multiple_of": 16, "full_attn_idxs": [1, 3], "layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "reformer": {"is_decoder": True, "axial_pos_shape": [8, 8], "axial_pos_embds_dim": [8, 24]},
    "glm5_next_text": {"index_kpool": 2, "qk_rope_head_dim": 0, "qk_head_dim": 8},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"]},
    "zamba2": {"mamba_headdim": 16, "n_mamba_heads": 4},
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "qwen4_exp_text": {"hc_lowrank": 8, "ngram_vocab_size_base": 64, "make_ngram_vocab_size_divisible_by": 4,
                       "split_ngram_parts": 1, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8,
                       "indexer_budget": 16, "indexer_compress_ratio": 4},
}

#: Families whose rotations have sections for time, height and width even if their defaults do not say so.
SECTIONED = {
    "glm4v_text", "glm4v_moe_text", "glm46v_text", "glm_ocr_text", "paddleocr_vl_text", "qwen2_5_omni_text",
    "qwen2_5_vl_text", "qwen2_vl_text", "glmga_text", "ernie4_5_vl_moe_text", "hunyuan_vl_text",
}

ONE_KEY_PER_HEAD = {"dots3_note", "dots3_note_text", "glm5_next_text"}


def tiny(conf, extra=None):
    """An instance of a configuration class with small sizes, its parts too."""
    base = conf()
    values = base.to_dict()
    named = set(values) | set(getattr(conf, "attribute_map", {})) | set(inspect.signature(conf.__init__).parameters)
    small = {key: value for key, value in SMALL.items() if key in named}
    for key in getattr(conf, "sub_configs", {}):
        part = getattr(base, key, None)
        if part is not None and hasattr(part, "to_dict"):
            small[key] = tiny(type(part))
    for key, value in small.items():  # where the field is a list of sizes
        if isinstance(value, int) and isinstance(values.get(key), (list, tuple)):
            small[key] = [value for _ in values[key]]
    # Lists with an entry for each layer.
    depth = next((values[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if isinstance(values.get(key), int)), 0)
    for key, value in values.items():
        if isinstance(value, list) and depth > LAYERS and len(value) == depth:
            small[key] = spread(value)
    for key in ("rope_parameters", "rope_scaling"):
        rope = values.get(key)
        if isinstance(rope, dict) and ("mrope_section" in rope or conf.model_type in SECTIONED):
            share = rope.get("partial_rotary_factor", 1)
            half = int(SMALL["head_dim"] * share) // 2
            small[key] = {**rope, "mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}
    if "kv_lora_rank" in values or conf.model_type in ONE_KEY_PER_HEAD:
        small["num_key_value_heads"] = small["num_attention_heads"]
    small.update(FAMILY.get(conf.model_type, {}))
    small.update(extra or {})
    return conf(**small)


def spread(entries):
    """Four entries of a list by layer, in its order, that show as many kinds as they can."""
    if len(set(map(str, entries[:LAYERS]))) == len(set(map(str, entries))):
        return entries[:LAYERS]
    kinds = list({str(entry): entry for entry in entries}.values())
    return [kinds[i % len(kinds)] for i in range(LAYERS)]


def configuration(model_type, extra=None):
    return tiny(CONFIG_MAPPING[model_type], extra)
