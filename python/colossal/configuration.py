"""The keys of run.toml, as train(), tune() and plan() take them. Made by tools/write_configuration_types.py."""
from typing import Any, Literal, TypedDict


class Model(TypedDict, total=False):
    # Use this built-in model, with random initial weights. Give either this or model.path. Available: gpt2-tiny, gpt2-124m,
    # gpt2-355m, gpt2-774m, gpt2-1558m, llama-tiny, llama2-7b, llama2-70b, llama3.2-1b, llama3.1-8b, llama3.1-70b,
    # llama3.1-405b, qwen2-0.5b, qwen2-7b, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-14b, qwen3-32b, mistral-7b-v0.1,
    # mistral-7b-v0.3, mistral-nemo-12b, gemma-2b, gemma-7b, gemma2-2b, gemma2-9b, gemma2-27b, gemma3-270m, gemma3-1b,
    # gemma3-4b, gemma3-12b, gemma3-27b, phi3-mini-4k, phi4-14b, olmo2-1b, olmo2-7b, olmo2-13b, olmo2-32b, glm4-9b,
    # command-r-35b, command-r7b, smollm3-3b, gptj-6b, pythia-160m, pythia-410m, pythia-1b, pythia-2.8b, pythia-6.9b,
    # opt-125m, opt-1.3b, opt-6.7b, opt-66b, bloom-560m, bloom-1b7, bloom-7b1, bloom-176b, falcon-7b, falcon-40b,
    # mixtral-8x7b, mixtral-8x22b, qwen1.5-moe-a2.7b, qwen2-57b-a14b, qwen3-30b-a3b, qwen3-235b-a22b, deepseek-v2-lite,
    # deepseek-v2, deepseek-v3, gpt-oss-20b, gpt-oss-120b, bert-tiny, bert-base, bert-large, roberta-base, roberta-large,
    # xlm-roberta-base, xlm-roberta-large, distilbert-base, modernbert-base, modernbert-large, bart-tiny, bart-base,
    # bart-large, t5-tiny, flan-t5-small, flan-t5-base, flan-t5-large, flan-t5-xl, flan-t5-xxl, mt5-small, mt5-base,
    # mt5-large, mt5-xl, mt5-xxl, clip-vit-base-patch32, clip-vit-base-patch16, clip-vit-large-patch14, siglip-base-patch16,
    # siglip-large-patch16, vit-tiny, vit-small, vit-base, vit-large, vit-huge, deit-tiny, deit-small, deit-base,
    # dinov2-small, dinov2-base, dinov2-large, dinov2-giant.
    preset: str
    # Use the model in this Hugging Face folder: its config.json, and its weights if there are any (else random initial
    # weights). Give either this or model.preset.
    path: str


class Data(TypedDict, total=False):
    # The files to train on: paths or glob patterns, in which ** matches any number of subfolders. Files may be compressed
    # (.gz, .zst).
    train: str | list[str]
    # Mix the entries of data.train in these proportions, one number for each entry. Each entry is then a separate source:
    # samples are drawn from it in proportion to its weight, and it starts again when it has been read through. 0: leave the
    # entry out. Empty: all files are one source.
    weights: list[float]
    # Files to measure the validation loss on, at the end and every train.evaluate_every steps. The model is not trained on
    # them.
    validation: str | list[str]
    # Of images: random changes of each training image, new in each epoch. "none", or some of "random_crop" (a part of 8 % to
    # 100 % of the area), "flip" (every second image is mirrored), "color_jitter" (brightness, contrast, saturation and hue),
    # "mixup" and "cutmix" (an image and its target are mixed with another's; with both, either is drawn).
    augment: str | list[str]
    # The tokenizer. "bytes": each byte is a token. A path: a tokenizer.json. "model": the tokenizer in model.path.
    tokenizer: str
    # Length of a sequence (a sample) in tokens. With longer sequences the model learns to use more context, but training
    # takes more memory.
    sequence_length: int
    # true: attention stays within a document (a file, or a row of one). false: a token attends to all tokens before it in its
    # sequence, even if they belong to another document.
    separate_documents: bool
    # What the model learns. causal: to predict the next token, as decoders do. masked: to predict tokens that are masked, as
    # encoders such as BERT do. denoising: to mend a text of which the encoder sees only parts, as encoder-decoders such as T5
    # do.
    objective: Literal["causal", "masked", "denoising"]
    # With masked tokens: the probability that a token is to be predicted. Of these tokens, 80 % are replaced by the mask
    # token, 10 % by a random token, and 10 % stay. With denoising: the share of the tokens that are in missing spans. Of
    # images: the share of the blocks that are masked, rounded up.
    mask_probability: float
    # Of images: side of the square blocks that are masked as a whole, a multiple of the model's patch_size.
    mask_block: int
    # Seed of the order in which samples are drawn.
    seed: int
    # How a file contains documents. text: the file is one document. All others: each row has one: a line with a JSON object
    # (jsonl), an object of a list or of several (json), a row of a table (csv, tsv, parquet, arrow). auto: by the name, in
    # any case: .jsonl, .ndjson, .json, .csv, .tsv, .parquet, .arrow, compressed or not; else text.
    format: Literal["auto", "text", "jsonl", "json", "csv", "tsv", "parquet", "arrow"]
    # With files that have rows: the field, or column, that contains the document.
    text_field: str
    # Whether a beginning-of-text token stands before each document, as before a text that `transformers` tokenizes. auto: if
    # the tokenizer's post-processor adds one.
    bos: bool
    # Cache the tokens of files in this folder, so that later runs need not tokenize them again. Empty: keep tokens in memory
    # only.
    cache: str
    # What to do with a file that cannot be read as text, such as an archive or, if the tokenizer needs UTF-8, a file that is
    # not UTF-8, and with a row that contains no document. error: stop. skip: leave it out and count it.
    invalid: Literal["error", "skip"]
    # The chat template, which turns a conversation into a text. "model": the template of model.path. A path: a template file
    # (.jinja).
    chat_template: str
    # The token that ends texts and turns, such as "</s>". Checkpoints name it as an end token, so that generation stops where
    # the model was taught to. "auto": the tokenizer's end token and, of conversations, the token with which the chat template
    # ends what the assistant says.
    eos_token: str
    # Put several samples into a row to reduce padding. bfd: the end of a sample that is longer than a row is dropped.
    # bfd_split: such a sample is split. With both, attention stays within a sample. wrapped: samples are cut at the ends of
    # rows, and attention crosses samples.
    packing: Literal["bfd", "bfd_split", "wrapped"]
    # The field of the second text, in lines that have one: the model then labels the pair.
    pair_field: str
    # The field of the label: a text or a whole number (a class), a list of texts (several labels), or a number with a decimal
    # point (regression).
    label_field: str


class Parallel(TypedDict, total=False):
    # auto: choose the fastest layout that fits the memory, by predicting the time of a step with many layouts. It chooses
    # those of these keys that you do not set: parallel.pp, dp, sp, tp, ep, tp_mode, tp_depth, sp_mode, zero, pp_schedule and
    # pp_chunks, train.micro_batch, memory.recompute. manual: use the keys as they are.
    strategy: Literal["manual", "auto"]
    # A file with the rates of the machines (docs/plan.md), which colossal check --cluster=FILE writes. The search of strategy
    # = "auto" and predicted times use it. Empty: for strategy = "auto", the machine of rank 0 is measured, and all ranks
    # count as ranks of this host.
    cluster: str
    # Data parallelism: number of replicas of the model, each of which trains on its part of the batch.
    dp: int
    # Pipeline parallelism: number of ranks that each hold some of the model's layers. Use it for models that are too large
    # for one rank. It communicates the least, so these ranks may be on different hosts.
    pp: int
    # The order in which the ranks of a pipeline compute micro-batches: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half,
    # v-min or dualpipe-v, or the path of a file with your own schedule. docs/pipeline.md says when to use which.
    pp_schedule: str
    # Number of stages of each rank of a pipeline. With more stages, ranks wait less but communicate more.
    pp_chunks: int
    # Number of the model's layers in each stage, in model order. auto: balances the computation of all stages, including the
    # output head.
    pp_layers: list[int]
    # Sequence parallelism: number of ranks that share each sequence; each holds some of its tokens. Use it for sequences that
    # are too long for the memory of one rank.
    sp: int
    # How attention works with sp. ring: keys and values travel from rank to rank; works for any number of ranks. ulysses:
    # each rank gets whole sequences for some of the heads; communicates less, but needs at least one head per rank of sp.
    sp_mode: Literal["ring", "ulysses"]
    # Tensor parallelism: number of ranks that share each weight and its matrix products. Use it for models that are too large
    # for one rank. It communicates the most, so keep these ranks on one host.
    tp: int
    # How tp shards weights and activations. 1d: along one dimension; best up to about 16 ranks. 2d: over q x q ranks; for
    # micro-batches with many tokens. 2.5d: over tp_depth squares of q x q ranks; communicates less, and takes as much memory
    # for weights as 2d. 3d: over q x q x q ranks; communicates the least from 64 ranks on.
    tp_mode: Literal["1d", "2d", "2.5d", "3d"]
    # With tp_mode 2.5d: number of q x q squares of ranks, so that tp = q x q x tp_depth.
    tp_depth: int
    # With tp_mode 1d. true: between the linear layers each rank keeps only its part of the tokens, which takes less memory.
    # The forward pass communicates as much as without it, the backward pass half as much again.
    tp_sequence: bool
    # Expert parallelism: number of ranks that the experts of a layer are divided among, as evenly as possible. Tokens are
    # sent to the ranks of their experts. Does not add ranks: ep must divide dp x sp x tp.
    ep: int
    # For models with experts: number of ranks that share each expert. A token is sent to all of them: use this if one expert
    # is too large for a rank. ep x expert_tp must divide dp x sp x tp.
    expert_tp: int
    # With ep, in training: how many experts of a layer may be copied to all ranks of ep for a micro-batch if routing gives
    # one rank more rows than the others. Each rank then computes its own rows for these experts. Copies take additional
    # memory on each rank. 0: no copies.
    expert_copies: int
    # The cost of a copy, in rows: n experts are copied only if this takes more than n times this many rows from the busiest
    # rank. docs/experts.md says from how many rows a copy pays off.
    expert_copy_rows: int
    # ZeRO stage: what is sharded over the ranks that hold the same parameters (dp x sp). 0: nothing. 1: the optimizer state.
    # 2: also gradients. 3: also weights, which are gathered for each use. Each stage takes less memory; only stage 3 always
    # communicates more.
    zero: int
    # Shard for zero within groups of this many neighbouring ranks of dp x sp instead of over all of them, so that each group
    # holds all shards. Takes more memory, but weights are sent within a group only. If links between hosts are slow, use the
    # number of ranks per host.
    zero_group: int | Literal["all"]
    # With zero 2 or 3 and several micro-batches per step. sharded: each rank keeps only its shard of the gradients, and
    # gradients are reduced after every micro-batch; takes the least memory. full: each rank keeps all gradients, which are
    # reduced once per step; communicates the least.
    accumulate: Literal["sharded", "full"]
    # How ranks communicate. shm: shared memory, within a host. gloo: TCP. nccl: for GPUs. auto: nccl if each rank has a GPU,
    # else shm within a host and gloo between hosts.
    backend: Literal["auto", "shm", "gloo", "nccl"]
    # Where ranks compute. gpu: on GPUs, which ranks share if there are more ranks than GPUs; calls between them then go
    # through host memory. auto: on GPUs with backend nccl, or with backend auto if each rank has its own GPU; otherwise on
    # the CPU.
    device: Literal["auto", "cpu", "gpu"]
    # How long a rank waits for other ranks before it ends with an error.
    timeout: float | str


class Memory(TypedDict, total=False):
    # Activation recomputation: which activations are computed again in the backward pass instead of being saved, to save
    # memory at the cost of time. selective: the results of norms and activation functions; costs little time. full:
    # everything except the inputs of layers; costs about a third more computation. A number: full, for that many layers.
    # auto: as little as fits memory.device_budget.
    recompute: int | Literal["none", "selective", "full", "auto"]
    # Compute with the tables of the embedding and of the output head in blocks of at most this many rows. Takes less memory,
    # and one more product with the table per step. 0: no blocks.
    table_rows: int
    # Maximum memory for a rank's tensors on its device. A run that needs more is refused before it starts, with settings that
    # would fit. The process itself takes about 128 MiB more.
    device_budget: int | str
    # Maximum memory for a rank's tensors that are offloaded to the host (memory.offload_* = "host").
    host_budget: int | str
    # Where weights are stored between uses: on the device (none), on the host or on NVMe; or a fraction on each, such as
    # {host = 0.5, nvme = 0.25}. Offloading takes less device memory, but moving the data takes time. auto: offloads no more
    # than the budgets require.
    offload_parameters: dict[str, float] | Literal["none", "host", "nvme", "auto"]
    # Where gradient sums are stored between uses: on the device (none), on the host or on NVMe; or a fraction on each, such
    # as {host = 0.5, nvme = 0.25}. Offloading takes less device memory, but moving the data takes time. auto: offloads no
    # more than the budgets require.
    offload_gradients: dict[str, float] | Literal["none", "host", "nvme", "auto"]
    # Where the optimizer's master weights and moments (updated on the host) are stored between uses: on the device (none), on
    # the host or on NVMe; or a fraction on each, such as {host = 0.5, nvme = 0.25}. Offloading takes less device memory, but
    # moving the data takes time. auto: offloads no more than the budgets require.
    offload_optimizer: dict[str, float] | Literal["none", "host", "nvme", "auto"]
    # Where activations saved for the backward pass are stored between uses: on the device (none), on the host or on NVMe; or
    # a fraction on each, such as {host = 0.5, nvme = 0.25}. Offloading takes less device memory, but moving the data takes
    # time. auto: offloads no more than the budgets require.
    offload_activations: dict[str, float] | Literal["none", "host", "nvme", "auto"]
    # A folder on a fast local disk, for the file in which memory.offload_* stores data on NVMe.
    nvme_path: str


class Precision(TypedDict, total=False):
    # The type of weights and activations in computations. auto: bf16 if the processor supports bf16 matrix products, else
    # fp32; a run that resumes keeps its type.
    compute: Literal["auto", "fp32", "bf16", "fp64"]
    # The type in which gradients are accumulated and reduced. auto: the type of precision.compute, but fp32 with bf16 and
    # several micro-batches per step, also when a run resumes at another layout.
    gradients: Literal["auto", "fp32", "bf16", "fp64"]


class Optimizer(TypedDict, total=False):
    # The optimizer, which updates the weights. adamw is the usual choice. muon needs half the memory for its state and fewer
    # steps; it updates the matrices of linear layers, and adamw the rest. adafactor and came keep averages of rows and
    # columns instead of elements: least memory. lamb and lars are for huge batches. docs/optimizers.md compares all.
    name: Literal["adamw", "adam", "sgd", "lion", "adan", "lamb", "lars", "adafactor", "came", "muon", "galore"]
    # The peak learning rate, reached after the warm-up.
    learning_rate: float
    # Weight decay: each step subtracts learning rate x this x the weight (adam, sgd and lars add it to the gradient instead).
    # Applies to weights with two or more dimensions, not to biases and norms.
    weight_decay: float
    # The decay rates of the running averages of gradients, of squared gradients, and so on. Closer to 1: the averages change
    # more slowly. adafactor has one, of the gradient; 0: none.
    betas: list[float]
    # Added to the denominator of the update, to avoid a division by zero; adafactor and came add it to squared gradients.
    eps: float
    # The decay rate of the running sum of gradients. 0: the gradient itself.
    momentum: float
    # Whether sgd and lars look ahead by one step of momentum. muon always does.
    nesterov: bool
    # For lars: how large the update of a tensor is, as a fraction of the norm of its weights (before the learning rate).
    trust_coefficient: float
    # For adafactor and came: the largest root mean square of a tensor's update, before the learning rate.
    clip_threshold: float
    # For adafactor: whether the learning rate of a tensor is multiplied by the root mean square of its weights, at least
    # 0.001. Use a learning rate of about 0.01 then.
    scale_by_parameter: bool
    # For muon: number of iterations that make an update orthogonal.
    newton_schulz_steps: int
    # For muon: by what the orthogonal update is multiplied. match_rms_adamw: 0.2 times the root of the larger dimension, so
    # that a learning rate for adamw suits. original: the root of outputs / inputs, at least 1; use a learning rate of about
    # 0.02 then.
    muon_scale: Literal["match_rms_adamw", "original"]
    # For galore: the rank of the projection of gradients. Smaller: less memory.
    rank: int
    # For galore: number of steps after which the projection is computed anew.
    projection_interval: int
    # For galore: factor of the projected updates.
    projection_scale: float
    # Other settings for some parameters. Each table has a pattern, a regular expression that is searched for in the names of
    # parameters (those in training_state/optimizer.safetensors), and any of: name (another optimizer), learning_rate_scale,
    # weight_decay, frozen. If several patterns match, the last counts.
    groups: list[dict[str, Any]]


class Scheduler(TypedDict, total=False):
    # How the learning rate changes after the warm-up. cosine: decreases along half a cosine. linear: decreases along a line.
    # constant: does not change. wsd: stays at the peak, and decreases in the last steps, so that the length of the run can be
    # chosen late. docs/optimizers.md draws all.
    name: Literal["cosine", "linear", "constant", "cosine_restarts", "polynomial", "flat_cosine", "exponential", "step",
        "multistep", "inverse_sqrt", "power", "wsd", "one_cycle"]
    # Number of warm-up steps at the start, over which the learning rate increases linearly: step n has n / warmup_steps of
    # the peak. The step after the warm-up has the peak rate again.
    warmup_steps: int
    # The learning rate at the end of the schedule, as a fraction of the peak. As in transformers, it would be reached one
    # step after train.steps.
    minimum_ratio: float
    # The exponent of the schedules polynomial and power.
    power: float
    # By what step and multistep multiply the learning rate, and exponential in each step.
    decay_factor: float
    # For step: number of steps after which the learning rate is multiplied.
    step_size: int
    # For multistep: the steps after which the learning rate is multiplied.
    milestones: list[int]
    # For flat_cosine: fraction of the steps after the warm-up that have the peak rate.
    flat_ratio: float
    # For cosine_restarts: how often the learning rate falls from the peak.
    cycles: int
    # For wsd and power: number of last steps in which the learning rate falls to the minimum.
    decay_steps: int
    # For wsd and power: how the learning rate falls in these steps. sqrt: by 1 - the root of the part of the steps that is
    # done.
    decay_shape: Literal["linear", "cosine", "sqrt"]


class Experts(TypedDict, total=False):
    # For models with experts: the weight of the load-balancing loss, which is smallest if all experts get equally many
    # tokens. It is added to the mean loss, and logged as auxiliary_loss.
    balance_loss: float
    # The tokens over which the load-balancing loss is computed. sequence: each sequence, for each layer. micro_batch: a
    # micro-batch of all replicas together, for each layer. layers: the same, over all layers together, as in transformers.
    balance_over: Literal["sequence", "micro_batch", "layers"]
    # The weight of the router z-loss, which keeps router logits small: for each layer, the mean over tokens of the squared
    # log-sum-exp of the logits.
    z_loss: float
    # Balancing without a loss: how much each step raises the router bias of experts that got fewer tokens than the mean, and
    # lowers that of the others. These biases affect only which experts are chosen. For models whose routers have such biases.
    bias_rate: float
    # Capacity of an expert in training: how many tokens of a sequence it accepts, as a multiple of an equal share. The tokens
    # with the smallest router weights are dropped first, and logged as router_dropped. This limits an expert's work. 0: no
    # limit, no token is dropped.
    capacity_factor: float
    # The routing.json that an earlier run of the model wrote into its log.directory: how many rows each expert had. With ep,
    # experts are then assigned to ranks so that all ranks have about equally many rows, and plans use these counts. Empty:
    # experts are assigned in order, and plans assume equally many rows for each.
    observed: str


class Adapter(TypedDict, total=False):
    # lora: freeze the weights of model.path and train a low-rank adapter for each linear layer instead. prefix: train keys
    # and values that every layer sees before those of the text (prefix tuning). Both take a fraction of the memory;
    # checkpoints are peft folders.
    kind: Literal["none", "lora", "prefix"]
    # Number of virtual tokens of a prefix. More can learn more, but leave fewer positions for the text.
    virtual_tokens: int
    # The rank of the adapters. Higher: more trainable weights, which can learn more and take more memory.
    rank: int
    # An adapter's output is multiplied by alpha / rank, so that the learning rate need not change with the rank.
    alpha: float
    # The dropout probability at the adapters' inputs.
    dropout: float
    # Which linear layers get an adapter: names as in the model's files (q_proj), or regular expressions that match whole
    # names. Empty: all linear layers of the blocks except stacked experts.
    targets: str | list[str]
    # Which stacked experts get adapters, one for each expert: "experts.gate_up_proj", "experts.down_proj", or regular
    # expressions that match whole names. If only this key is given, no linear layer gets an adapter.
    target_parameters: str | list[str]
    # true: multiply by alpha / sqrt(rank) instead (rsLoRA), which is better for high ranks.
    rslora: bool
    # Initial values of new adapters. gaussian: A is random, B is zero. pissa: A and B are the largest singular values and
    # vectors of the weight, and the frozen weight keeps the rest (PiSSA); a checkpoint then has twice the rank and fits the
    # original model. A prefix has gaussian or zeros.
    initial: Literal["gaussian", "pissa", "zeros"]
    # true: DoRA: also train the magnitude of each output; the low-rank product changes directions only.
    dora: bool
    # Other ranks for some linear layers: entries MODULES=RANK, with names as in adapter.targets, such as "down_proj=8". The
    # first entry that matches is used.
    rank_pattern: str | list[str]
    # Other values of alpha for some linear layers, in the same form.
    alpha_pattern: str | list[str]
    # Modules that are fully trained in addition to the adapters, and saved with them: names as in the model's files, such as
    # "lm_head" or a new "score".
    modules_to_save: str | list[str]
    # How the frozen weights of the blocks' linear layers are stored. as_is: in precision.compute. int8: quantized, 8.25 bits
    # each. nf4: quantized, 4.13 bits each, as in QLoRA. Quantized weights are dequantized for computations.
    base: Literal["as_is", "int8", "nf4"]
    # Start from the adapter in this folder, with its rank, alpha and targets, instead of from a new one.
    resume_from: str


class Train(TypedDict, total=False):
    # Total number of training steps, including those before the checkpoint that the run resumes from.
    steps: int
    # Number of sequences per step, over all ranks. Must be a multiple of dp.
    global_batch: int
    # Number of sequences per forward pass of a replica. Smaller takes less memory. The gradients of a step's micro-batches
    # are summed.
    micro_batch: int
    # Gradient clipping: scale a step's gradients down to this norm, over all parameters, if their norm is larger. 0: no
    # clipping.
    gradient_clip: float
    # Seed of the initial weights and of dropout.
    seed: int
    # Replaces every dropout probability in the model's config.json.
    dropout: float
    # Number of CPU threads of each rank.
    threads: int
    # Measure the loss on data.validation every this many steps. 0: only at the end.
    evaluate_every: int
    # Evaluate on the first this many sequences of data.validation only, always the same ones. 0: on all.
    evaluate_sequences: int
    # End the run when this many evaluations, one after the other, are not better than the best one before, by
    # checkpoint.best_metric. 0: never.
    early_stopping: int
    # With train.early_stopping: by how much an evaluation must be better than the best.
    early_stopping_threshold: float
    # Prompts that the model completes at each evaluation, greedily; the completions go to samples.jsonl and report.html in
    # log.directory.
    sample_prompts: str | list[str]
    # With train.sample_prompts: most tokens of a completion.
    sample_tokens: int


class Checkpoint(TypedDict, total=False):
    # Save checkpoints in this folder; each is a Hugging Face folder. Every run needs a folder of its own, shared by all
    # hosts. Empty: nothing is saved, and the trained model is lost at the end.
    directory: str
    # Save a checkpoint every this many steps. 0: only at the end.
    every: int
    # Elastic runs on one host (--min-ranks): also save a checkpoint into the host's memory (/dev/shm) every this many steps,
    # from which the run resumes after a failure. Takes the memory of two checkpoints. 0: none.
    memory_every: int
    # Number of complete checkpoints of the run to keep; older ones are deleted, also those that other runs start from.
    # Damaged checkpoints do not count and are not deleted. 0: keep all.
    keep: int
    # Number of checkpoints to keep in addition to the newest: those with the best checkpoint.best_metric. With
    # validation_loss, an evaluation that is among the best also saves a checkpoint.
    keep_best: int
    # The metric by which checkpoints are compared: a key of metrics.jsonl with a number, such as rewards/mean, of the
    # checkpoint's step.
    best_metric: str
    # Whether the lowest or the highest value of this metric is the best.
    best_is: Literal["lowest", "highest"]
    # Whether to resume from the newest complete checkpoint in checkpoint.directory. auto: if there is one. never: start a new
    # run, in a directory without checkpoints. must: resume, or fail if there is no checkpoint.
    resume: Literal["auto", "never", "must"]


class Log(TypedDict, total=False):
    # Write metrics.jsonl, report.html and run.toml, the settings used, into this folder. If it has those of another run, a
    # subfolder is used. Empty: write none.
    directory: str
    # If the output is not a terminal, print a progress line every this many steps.
    every: int
    # Also write TensorBoard event files into log.directory.
    tensorboard: bool
    # Also write the run into this folder as a file store of MLflow (mlruns). Empty: do not.
    mlflow: str
    # Also write the run into this folder as Weights & Biases does offline; `wandb sync` sends it. Empty: do not.
    wandb: str
    # The name of MLflow's experiment and of Weights & Biases' project.
    project: str
    # Also write report.html, with charts: from time to time and at the end.
    report: bool
    # Profile this many steps, after the first two. Writes into log.directory: profile.txt, the time by layer and operator
    # and, on a GPU, by kernel; trace-rank-N.json, a rank's timeline for ui.perfetto.dev; and timeline.json, the measured
    # stages of all ranks and the simulated ones. 0: no profile.
    profile: int


class Tune(TypedDict, total=False):
    # Number of epochs: how many times to train on each sample. Ignored if train.steps is given.
    epochs: float
    # Depends on the method: docs/tuning.md has its values.
    loss_type: str | list[str]
    # For conversations. true: compute the loss only on what the assistant says, as the template marks it with {% generation
    # %}.
    assistant_only_loss: bool
    # For samples with a prompt and a completion. true: compute the loss only on the completion. false: also on the prompt.
    completion_only_loss: bool
    # The weight of a term that keeps the mean reward of a pair near 0.
    center_rewards_coefficient: float
    # What the labels mean. single_label_classification: one of several classes. multi_label_classification: any number of
    # labels. regression: numbers.
    problem_type: Literal["single_label_classification", "multi_label_classification", "regression"]
    # The weights of the losses in tune.loss_type, one for each. Empty: all weights are 1.
    loss_weights: list[float]
    # How closely the model stays to the reference model: larger is closer.
    beta: float
    # The assumed fraction of pairs whose labels are swapped.
    label_smoothing: float
    # The divergence from the reference model that scores completions.
    f_divergence_type: Literal["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"]
    # The alpha of f_divergence_type = alpha_divergence.
    f_alpha_divergence_coef: float
    # The temperature of loss_type = discopop.
    discopop_tau: float
    # The weight of the extra tokens of the longer completion of a pair. Below 1: length has less influence.
    ld_alpha: float
    # The weight of the loss of desirable completions.
    desirable_weight: float
    # The weight of the loss of undesirable completions.
    undesirable_weight: float
    # With loss_type = simpo: the target margin between the chosen and the rejected completion.
    simpo_gamma: float
    # The weight of the supervised loss of the chosen completion, per token.
    cpo_alpha: float
    # How strongly AlphaPO transforms rewards away from log-probabilities. 0: rewards are log-probabilities.
    alpha: float
    # Group size: how many completions of each prompt to sample and compare with each other. train.global_batch counts
    # completions.
    num_generations: int
    # true: leave out groups whose rewards are all equal, which give no gradient, and sample other prompts instead (DAPO).
    dynamic_sampling: bool
    # Maximum number of sampling rounds of tune.dynamic_sampling for one generation.
    max_sampling_rounds: int
    # Maximum length of a completion in tokens; longer ones are cut off.
    max_completion_length: int
    # Sampling temperature: divides the logits, both when completions are sampled and when their probabilities are compared.
    # Lower: completions vary less.
    temperature: float
    # Sample from the k most likely tokens only. 0: from all tokens.
    top_k: int
    # Sample from the smallest set of most likely tokens whose probabilities sum to at least this. 1: from all tokens.
    top_p: float
    # Sample only from tokens at least this many times as likely as the most likely one. 0: from all tokens.
    min_p: float
    # Above 1: tokens that have occurred become less likely. 1: no penalty.
    repetition_penalty: float
    # true: a completion is bit-identical whatever else is sampled in the same batch, and at every layout. Sampling is slower.
    batch_invariant: bool
    # true: append completions and their rewards to completions.jsonl in log.directory.
    log_completions: bool
    # The reward functions, whose rewards are added. Built in: accuracy, format, length, repetition, overlong. A reward model:
    # "model:DIR". Your own: "command:PROGRAM" (lines of JSON in, numbers out) or "http://HOST:PORT/PATH".
    reward: str | list[str]
    # The weights of the rewards in tune.reward, one for each. Empty: all weights are 1.
    reward_weights: list[float]
    # How long a reward program or address may take for a batch. If it fails or takes longer, a warning is logged, and the
    # completions have no reward from it.
    reward_timeout: float | str
    # The reward overlong starts to decrease this many tokens before tune.max_completion_length.
    overlong_tokens: int
    # Asynchronous sampling: how many generations ahead completions are started. They are sampled during each update, with the
    # weights before it, so that a generation need not wait for its longest completion. 0: all tokens are sampled with the
    # newest weights.
    max_staleness: int
    # With tune.max_staleness. true: sample during the forward and backward passes of updates. false: sample before them. The
    # results are the same. Always false with parallel.zero = 3, with memory.offload_parameters and on a GPU.
    overlap_sampling: bool
    # Corrects the loss for tokens that were sampled with other weights or kernels. token_*: each token's loss is multiplied
    # by its importance ratio, the trainer's probability over the sampler's. sequence_*: by the ratio of the whole completion.
    # *_truncate: ratios out of bounds are set to the bound. *_mask: they are set to 0.
    importance_sampling_mode: Literal["none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
    # The upper bound of the ratios of tune.importance_sampling_mode.
    importance_sampling_clip_max: float
    # The lower bound of the ratios of tune.importance_sampling_mode.
    importance_sampling_clip_min: float
    # Clip range of the ratio of a token's new probability to its old one: below 1 minus this, the ratio is clipped.
    epsilon: float
    # Upper clip range: above 1 plus this, the ratio is clipped. With loss_type = cispo: the largest ratio.
    epsilon_high: float
    # How many times to train on each completion.
    num_iterations: int
    # Sample the completions for this many steps at once; each step trains on train.global_batch of them.
    steps_per_generation: int
    # true: do not train on completions that were cut off.
    mask_truncated_completions: bool
    # Upper limit of the ratio of new to old probability, whatever the sign of the advantage.
    delta: float
    # token: each token has its own ratio of new to old probability. sequence: all tokens of a completion share the geometric
    # mean of their ratios (GSPO).
    importance_sampling_level: Literal["token", "sequence"]
    # What advantages are divided by. group: the standard deviation of the group's rewards. batch: the standard deviation of
    # the generation's rewards. none: not divided.
    scale_rewards: Literal["group", "batch", "none"]
    # true: multiply a token's divergence by its ratio of new to old probability.
    use_bias_correction_kl: bool
    # true: shift and scale the advantages of a generation to mean 0 and standard deviation 1.
    normalize_advantages: bool
    # The lowest and the highest reward; rewards outside are set to these. Empty: no limits.
    reward_clip_range: list[float]
    # The weight of the value head's loss.
    vf_coef: float
    # The clip range of the value loss: how far a predicted value may move from its value when the completion was sampled.
    cliprange_value: float
    # The discount factor of generalized advantage estimation, applied to a reward for each token before it.
    gamma: float
    # The lambda of generalized advantage estimation. 1: advantages depend on the rewards alone, without bias but with high
    # variance. 0: advantages depend on the next predicted value.
    lam: float
    # true: scale the rewards of tokens to standard deviation 1 over a generation.
    whiten_rewards: bool
    # Subtracted from the reward of a completion that is cut off before it ends.
    missing_eos_penalty: float
    # The folder of the teacher model, or its name on the Hugging Face Hub if it has been downloaded. It needs the same
    # vocabulary, but may be of another size or family.
    teacher: str
    # Fraction of the steps that train on completions sampled from the model itself. The others train on the completions of
    # data.train.
    lmbda: float


class Configuration(TypedDict, total=False):
    model: Model | dict[str, Any]
    data: Data
    parallel: Parallel
    memory: Memory
    precision: Precision
    optimizer: Optimizer
    scheduler: Scheduler
    experts: Experts
    adapter: Adapter
    train: Train
    checkpoint: Checkpoint
    log: Log
    tune: Tune
