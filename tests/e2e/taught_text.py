"""A base model, what it is taught about the form of chats, and how a folder is asked whether it was taught that."""
import json
import pathlib
import subprocess

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import COLOSSAL, EndToEndTest
from serve_test import Server

TEXT = "user assistant system: what is the answer? the answer is 42, naïve 日本\n" * 3
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END_OF_TEXT, END_OF_TURN = 0, 2
OTHER = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
MINE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
WITH_TOOLS = "{% for t in tools %}{{ t.name }};{% endfor %}" + MINE
QUESTION = [{"role": "user", "content": "what is it?"}]
ANSWER = [{"role": "assistant", "content": "the answer"}]
WORSE = [{"role": "assistant", "content": "a system"}]
PROMPT = "<|im_start|>user\nwhat is it?<|im_end|>\n<|im_start|>assistant\n"
ROWS = {
    "sft": {"messages": QUESTION + ANSWER},
    "dpo": {"prompt": QUESTION, "chosen": ANSWER, "rejected": WORSE},
    "kto": {"prompt": QUESTION, "completion": ANSWER, "label": True},
    "grpo": {"prompt": QUESTION},
}
LORA = ["--adapter.kind=lora", "--adapter.rank=2"]
# The end of a turn comes first, whatever the weights are.
ENDS_AT_ONCE = json.dumps({"sequence_bias": [[[END_OF_TURN], 100.0]], "do_sample": False})


class TaughtTextTest(EndToEndTest):
    def make_base(self, name="base", template=OTHER, in_file=True):
        """A base model: its texts end with <|endoftext|>; it may have a chat template of another form."""
        folder = self.directory / name
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator([TEXT], vocab_size=300, special_tokens=SPECIAL, show_progress=False)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token=SPECIAL[0])
        tokenizer.save_pretrained(folder)
        if template and in_file:
            (folder / "chat_template.jinja").write_text(template)
        elif template:
            config = json.loads((folder / "tokenizer_config.json").read_text())
            config["chat_template"] = [{"name": "default", "template": template},
                                       {"name": "tool_use", "template": WITH_TOOLS}]
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
        torch.manual_seed(3)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.1,
            bos_token_id=None, eos_token_id=END_OF_TEXT, pad_token_id=END_OF_TEXT, tie_word_embeddings=False))
        model.save_pretrained(folder)
        (folder / "generation_config.json").write_text(json.dumps(
            {"eos_token_id": END_OF_TEXT, "do_sample": True, "temperature": 0.7, "top_k": 5, "suppress_tokens": [9]}))
        return folder

    def call(self, *arguments):
        done = subprocess.run(list(map(str, [COLOSSAL, *arguments])), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def tune(self, method, base, *flags, name="tuned", row=None, template=MINE):
        """Returns the checkpoint. With `template`, the run renders conversations with this one."""
        folder = self.directory / name
        folder.mkdir()
        (folder / "data.jsonl").write_text((json.dumps(row or ROWS[method]) + "\n") * 2)
        (folder / "run.toml").write_text("")
        if template:
            (folder / "mine.jinja").write_text(template)
            flags = [f"--data.chat_template={folder / 'mine.jinja'}", *flags]
        if method == "grpo":
            flags = ["--tune.reward=length", "--tune.num_generations=2",
                     "--tune.max_completion_length=8", *flags]
        self.log = self.call(
            "tune", method, folder / "run.toml", f"--model.path={base}", f"--data.train={folder / 'data.jsonl'}",
            "--train.steps=1", "--train.global_batch=2", "--train.threads=1", "--precision.compute=fp32",
            "--data.sequence_length=64", f"--log.directory={folder / 'log'}", f"--checkpoint.directory={folder / 'ck'}",
            *flags).stderr
        self.metrics_file = folder / "log" / "metrics.jsonl"
        return folder / "ck" / "step-000001"

    def expect_files_of(self, folder, adapter=False):
        """What other programs read in the folder is what was taught."""
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.assertEqual(tokenizer.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True), PROMPT)
        self.assertEqual(tokenizer.eos_token, "<|im_end|>")
        generation = json.loads((pathlib.Path(folder) / "generation_config.json").read_text())
        self.assertEqual(generation["eos_token_id"], [END_OF_TURN, END_OF_TEXT])
        self.assertEqual((generation["temperature"], generation["top_k"], generation["suppress_tokens"]), (0.7, 5, [9]))
        if not adapter:
            config = json.loads((pathlib.Path(folder) / "config.json").read_text())
            self.assertIn(END_OF_TURN, config["eos_token_id"])

    def expect_generation_of(self, model, *flags):
        """generate, with a file and in a chat, stops where the turn ends."""
        (self.directory / "in.jsonl").write_text(json.dumps({"messages": QUESTION}) + "\n")
        output = self.directory / "out.jsonl"
        output.unlink(missing_ok=True)
        common = ["--train.threads=1", "--override-generation-config", ENDS_AT_ONCE, *flags]
        self.call("generate", model, f"--input={self.directory / 'in.jsonl'}", f"--output={output}", *common)
        line = json.loads(output.read_text())
        self.assertEqual((line["completion"], line["completion_tokens"], line["finish_reason"]), ("", 0, "stop"))
        chat = subprocess.run(list(map(str, [COLOSSAL, "generate", model, "--chat", *common])), input="what is it?\n",
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((chat.returncode, chat.stdout.strip()), (0, ""), chat.stderr)

    def expect_service_of(self, model, *flags, name="tiny"):
        """The server writes the prompt of training, and stops where the turn ends."""
        server = Server(model, *flags)
        try:
            tokens = server.post("/tokenize", {"model": name, "messages": QUESTION})["tokens"]
            self.assertEqual(server.post("/detokenize", {"tokens": tokens})["prompt"], PROMPT)
            answer = server.post("/v1/chat/completions", {
                "model": name, "messages": QUESTION, "max_tokens": 3, "temperature": 0,
                "logit_bias": {str(END_OF_TURN): 100}})["choices"][0]
            self.assertEqual((answer["message"]["content"], answer["finish_reason"]), ("", "stop"))
        finally:
            server.stop()
