"""colossal.train() of a model of transformers that is an object, on the ranks that torchrun starts: the same losses and weights at
every layout, and the object has the weights afterwards.

  python -m torch.distributed.run --standalone --nproc-per-node=2 model_object_cases.py
"""
import copy
import glob
import json
import unittest

import torch
import torch.distributed
import transformers

import colossal
from ranks import shared_directory

TEXTS = [f"{row} is a number, and {row * row} is its square." for row in range(40)]
CONFIGS = {
    "llama": transformers.LlamaConfig(vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True),
    "mixtral": transformers.MixtralConfig(vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, num_local_experts=4),
}


def model_of(name):
    torch.manual_seed(4)
    return transformers.AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name])).double()


class ModelObjects(unittest.TestCase):
    def setUp(self):
        self.folder = shared_directory()

    def train(self, model, name, **sections):
        return colossal.train(
            model=model, texts=TEXTS, data={"sequence_length": 32, "tokenizer": "bytes"},
            train={"steps": 3, "global_batch": 4, "threads": 1}, optimizer={"learning_rate": 1e-2},
            scheduler={"name": "constant"}, log={"directory": f"{self.folder}/{name}"}, **sections)

    def losses(self, name):
        with open(f"{self.folder}/{name}/metrics.jsonl") as file:
            return [json.loads(line)["loss"] for line in file]

    def check(self, name, layouts):
        wanted = None
        for number, parallel in enumerate(layouts):
            with self.subTest(**parallel):
                model = model_of(name)
                before = model.state_dict()["model.norm.weight"].clone()
                parameter = next(model.parameters())
                self.train(model, str(number), parallel=parallel)
                self.assertIs(next(model.parameters()), parameter)
                self.assertFalse(torch.equal(model.state_dict()["model.norm.weight"], before))
                found = torch.tensor(self.losses(str(number)), dtype=torch.float64), dict(model.state_dict())
                wanted = wanted or found
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)

    def test_every_layout_gives_the_same(self):
        self.check("llama", [{"zero": 0}, {"zero": 3}, {"tp": 2}, {"pp": 2}, {"sp": 2}])

    def test_experts(self):
        self.check("mixtral", [{"zero": 0}, {"ep": 2}, {"tp": 2}])

    def test_a_checkpoint_of_ones_own_is_kept(self):
        model = model_of("llama")
        run = self.train(model, "log", parallel={"tp": 2}, checkpoint={"directory": f"{self.folder}/kept"})
        opened = transformers.AutoModelForCausalLM.from_pretrained(run.checkpoint, dtype=torch.float64)
        torch.testing.assert_close(dict(opened.state_dict()), dict(model.state_dict()), rtol=0, atol=0)

    def test_leaves_nothing_behind(self):
        before = set(glob.glob("/dev/shm/colossal-model-*"))
        self.train(model_of("llama"), "log")
        torch.distributed.barrier()
        self.assertEqual(set(glob.glob("/dev/shm/colossal-model-*")) - before, set())

    def test_says_what_it_cannot_do(self):
        with self.assertRaisesRegex(ValueError, "boost\\(\\) any module"):
            colossal.train(model=torch.nn.Linear(2, 2))
        with self.assertRaisesRegex(ValueError, "only checkpoints have the adapter"):
            self.train(model_of("llama"), "log", adapter={"kind": "lora"})
        with self.assertRaisesRegex(ValueError, "tokenizer is for a model that is an object"):
            colossal.train(model={"path": "x"}, tokenizer=object())


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    unittest.main(verbosity=2)
