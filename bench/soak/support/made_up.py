"""Data with the form that public programs ask for, and no meaning: random images, texts, graphs, boxes, and models that are
saved as their configuration makes them. Each function fills a folder; small, as a dry run only wants shapes.

  made_up.py KIND FOLDER
"""

import gzip
import json
import pathlib
import pickle
import struct
import sys

import numpy
from PIL import Image

WORDS = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra", "so", "ti", "vu", "za") for b in ("n", "t", "r", "sk", "mel", "don")]


def _random():
    return numpy.random.default_rng(0)


def _picture(path, random, height=160, width=200, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    Image.fromarray(random.integers(0, 255, shape, dtype=numpy.uint8)).save(path)


def _sentence(random, words=12):
    return " ".join(random.choice(WORDS, words))


def images(folder, classes=4, each=8):
    """train/CLASS/N.jpg and val/CLASS/N.jpg, as torchvision's ImageFolder reads them."""
    random = _random()
    for part in ("train", "val"):
        for label in range(classes):
            for i in range(each):
                _picture(folder / part / f"class{label}" / f"{i}.jpg", random)


def pictures(folder, count=32):
    """Pictures side by side, of one size."""
    random = _random()
    for i in range(count):
        _picture(folder / f"{i}.jpg", random)


def super_resolution(folder):
    for part in ("train", "test"):
        pictures(folder / "BSDS300" / "images" / part, 8)


def carvana(folder):
    """imgs/N.jpg and masks/N_mask.gif, as Pytorch-UNet reads them."""
    random = _random()
    for i in range(8):
        _picture(folder / "imgs" / f"{i}.jpg", random)
        (folder / "masks").mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 2, (160, 200), dtype=numpy.uint8)).save(folder / "masks" / f"{i}_mask.gif")


def mnist(folder, name="MNIST"):
    """The four files of MNIST below NAME/raw, with 2,000 digits each."""
    random = _random()
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 2000), ("t10k", 2000)):
        pixels = random.integers(0, 255, (count, 28, 28), dtype=numpy.uint8)
        labels = random.integers(0, 10, count, dtype=numpy.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + pixels.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())


def coco(folder):
    """train2017, val2017 and their annotations, with boxes, polygons and key points."""
    random = _random()
    for part in ("train2017", "val2017"):
        pictures_, annotations = [], []
        for i in range(1, 17):
            _picture(folder / part / f"{i:012}.jpg", random, 240, 320)
            pictures_.append({"id": i, "file_name": f"{i:012}.jpg", "height": 240, "width": 320})
            for _ in range(int(random.integers(1, 6))):
                x, y, w, h = (int(v) for v in (*random.integers(5, 150, 2), *random.integers(40, 80, 2)))
                annotations.append({"id": len(annotations) + 1, "image_id": i, "category_id": int(random.integers(1, 90)), "iscrowd": 0,
                                    "bbox": [x, y, w, h], "area": w * h, "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]],
                                    "keypoints": [x + 5, y + 5, 2] * 17, "num_keypoints": 17})
        found = {"images": pictures_, "annotations": annotations, "categories": [{"id": n, "name": f"thing{n}"} for n in range(1, 91)]}
        (folder / "annotations").mkdir(exist_ok=True)
        for kind in ("instances", "person_keypoints"):
            (folder / "annotations" / f"{kind}_{part}.json").write_text(json.dumps(found))


def yolo(folder):
    random = _random()
    for part in ("train", "val"):
        for i in range(8):
            _picture(folder / "images" / part / f"{i}.jpg", random)
            (folder / "labels" / part).mkdir(parents=True, exist_ok=True)
            (folder / "labels" / part / f"{i}.txt").write_text("0 0.5 0.5 0.3 0.3\n1 0.4 0.6 0.2 0.4\n")
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: a, 1: b}}\n")


def token_bins(folder, vocabulary=50257):
    """train.bin and val.bin of 16-bit tokens, as nanoGPT reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "val"):
        _random().integers(0, vocabulary, 200_000, dtype=numpy.uint16).tofile(folder / f"{part}.bin")


def characters(folder):
    """The same for an alphabet of 65, with its meta.pkl."""
    token_bins(folder, 65)
    letters = [chr(32 + i) for i in range(65)]
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65, "itos": dict(enumerate(letters)),
                                                    "stoi": {c: i for i, c in enumerate(letters)}}))


def wikitext(folder):
    """train.txt, valid.txt, test.txt of words."""
    random = _random()
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "valid", "test"):
        (folder / f"{part}.txt").write_text("\n".join(_sentence(random, 20) for _ in range(400)) + "\n")


def names(folder):
    random = _random()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "names.txt").write_text("\n".join("".join(random.choice(WORDS, 2)) for _ in range(3000)))


def enwik8(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / "enwik8.gz", "wb", compresslevel=1) as file:
        file.write(_random().integers(32, 126, 96_000_000 // 2, dtype=numpy.uint8).tobytes() * 2)


def cora(folder):
    """cora.content and cora.cites: 2,708 papers of 7 classes with 1,433 words each."""
    random = _random()
    folder.mkdir(parents=True, exist_ok=True)
    numbers = random.permutation(100_000)[:2708] + 1
    kinds = ["Case_Based", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods", "Reinforcement_Learning", "Rule_Learning", "Theory"]
    words = random.integers(0, 50, (2708, 1433)) == 0
    with open(folder / "cora.content", "w") as file:
        for i, number in enumerate(numbers):
            file.write("\t".join([str(number), *("1" if word else "0" for word in words[i]), kinds[i % 7]]) + "\n")
    pairs = random.integers(0, 2708, (5429, 2))
    (folder / "cora.cites").write_text("".join(f"{numbers[a]}\t{numbers[b]}\n" for a, b in pairs))


def planetoid(folder):
    """Cora as PyTorch Geometric's Planetoid reads it: pickles of features, labels and neighbours."""
    import scipy.sparse

    random = _random()
    raw = folder / "Cora" / "raw"
    raw.mkdir(parents=True)

    def features(count):
        return scipy.sparse.csr_matrix((random.integers(0, 50, (count, 1433)) == 0).astype(numpy.float32))

    def labels(count):
        return numpy.eye(7, dtype=numpy.int32)[numpy.arange(count) % 7]

    graph = {node: [int(other) for other in random.integers(0, 2708, 4)] for node in range(2708)}
    parts = {"x": features(140), "tx": features(1000), "allx": features(1708), "y": labels(140), "ty": labels(1000), "ally": labels(1708), "graph": graph}
    for name, part in parts.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    (raw / "ind.cora.test.index").write_text("".join(f"{node}\n" for node in range(1708, 2708)))


def _graphs(folder, name, attributes=False):
    """A set of TUDataset: edges, the graph of each node, labels."""
    random = _random()
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    edges, graph_of = [], []
    for graph in range(1, 121):
        first, nodes = len(graph_of), int(random.integers(8, 25))
        graph_of += [graph] * nodes
        pairs = [(first + a + 1, first + (a + 1) % nodes + 1) for a in range(nodes)]
        edges += pairs + [(b, a) for a, b in pairs]

    def write(part, rows):
        (raw / f"{name}_{part}.txt").write_text("".join(f"{row}\n" for row in rows))

    write("A", [f"{a}, {b}" for a, b in edges])
    write("graph_indicator", graph_of)
    write("graph_labels", [graph % 2 for graph in range(1, 121)])
    write("node_labels", random.integers(0, 7, len(graph_of)))
    if attributes:
        write("node_attributes", random.random(len(graph_of)))


def mutag(folder):
    _graphs(folder, "MUTAG")


def proteins(folder):
    _graphs(folder, "PROTEINS", attributes=True)


def c4(folder):
    random = _random()
    (folder / "data.json").write_text("".join(json.dumps({"text": _sentence(random, 400)}) + "\n" for _ in range(200)))


def texts(folder):
    """One file per task of transformers' examples, and of trl's."""
    random = _random()
    folder.mkdir(parents=True, exist_ok=True)

    def lines(name, row, count=64):
        (folder / name).write_text("".join(json.dumps(row(i)) + "\n" for i in range(count)))

    def answered(i):
        context = _sentence(random, 60)
        word = context.split()[7]
        return {"id": str(i), "title": "t", "context": context, "question": _sentence(random, 8),
                "answers": {"text": [word], "answer_start": [context.index(word)]}}

    def talk(asked, told):
        return [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]

    lines("lm.json", lambda i: {"text": _sentence(random, 80)})
    lines("pairs.json", lambda i: {"sentence1": _sentence(random), "sentence2": _sentence(random), "label": i % 2})
    lines("ner.json", lambda i: {"tokens": _sentence(random).split(), "ner_tags": [f"T{k % 5}" for k in range(12)]})
    lines("summaries.json", lambda i: {"text": _sentence(random, 100), "summary": _sentence(random)})
    lines("translations.json", lambda i: {"translation": {"en": _sentence(random), "ro": _sentence(random)}})
    for name in ("chats", "preferences", "prompts"):
        (folder / name).mkdir()
    lines("chats/train.json", lambda i: {"messages": talk(_sentence(random), _sentence(random))})
    lines("preferences/train.json", lambda i: {"prompt": [talk(_sentence(random), "")[0]], "chosen": [talk("", _sentence(random))[1]],
                                               "rejected": [talk("", _sentence(random))[1]]})
    lines("prompts/train.json", lambda i: {"prompt": [talk(_sentence(random), "")[0]]})
    (folder / "qa.json").write_text(json.dumps({"data": [answered(i) for i in range(64)]}))
    lines("swag.json", lambda i: {"sent1": _sentence(random), "sent2": _sentence(random, 3), "label": i % 4,
                                  **{f"ending{k}": _sentence(random, 6) for k in range(4)}})


def _tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    random = _random()
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((_sentence(random) for _ in range(200)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                   mask_token="[MASK]", bos_token="<s>", eos_token="</s>", model_max_length=512)
    fast.chat_template = ("{% for message in messages %}{{ '<s>' + message['role'] + ' ' + message['content'] + '</s>' }}{% endfor %}"
                          "{% if add_generation_prompt %}{{ '<s>assistant ' }}{% endif %}")
    fast.save_pretrained(folder)
    return len(fast)


def _model(folder, make):
    import transformers

    vocabulary = _tokenizer(folder)
    make(transformers, vocabulary).save_pretrained(folder)


def bert(folder):
    _model(folder, lambda t, size: t.BertForMaskedLM(t.BertConfig(vocab_size=size, hidden_size=256, num_hidden_layers=4,
                                                                   num_attention_heads=4, intermediate_size=1024)))


def llama(folder):
    _model(folder, lambda t, size: t.LlamaForCausalLM(t.LlamaConfig(vocab_size=size, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                                                     intermediate_size=512, pad_token_id=1, bos_token_id=5, eos_token_id=6)))


def t5(folder):
    _model(folder, lambda t, size: t.T5ForConditionalGeneration(t.T5Config(vocab_size=size, d_model=256, d_kv=64, d_ff=512, num_layers=3, num_heads=4,
                                                                            pad_token_id=1, eos_token_id=6, decoder_start_token_id=1)))


def vit(folder):
    import transformers

    transformers.ViTForImageClassification(transformers.ViTConfig(hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768,
                                                                  num_labels=4)).save_pretrained(folder)
    transformers.ViTImageProcessor().save_pretrained(folder)


def stable_diffusion(folder):
    """A pipeline of Stable Diffusion's classes in small sizes, and pictures with captions beside it."""
    import diffusers
    import transformers

    words = _tokenizer(folder / "tokenizer")
    transformers.PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer", model_max_length=77).save_pretrained(folder / "tokenizer")
    text = transformers.CLIPTextModel(transformers.CLIPTextConfig(vocab_size=words, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
                                                                  num_attention_heads=4, pad_token_id=1, bos_token_id=5, eos_token_id=6))
    image = diffusers.AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2, block_out_channels=[32, 64],
                                    latent_channels=4)
    noise = diffusers.UNet2DConditionModel(sample_size=16, down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"],
                                           up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"], block_out_channels=[64, 128], cross_attention_dim=128)
    for name, part in (("text_encoder", text), ("vae", image), ("unet", noise), ("scheduler", diffusers.DDPMScheduler())):
        part.save_pretrained(folder / name)
    random = _random()
    pictures(folder / "pictures", 12)
    names = sorted(path.name for path in (folder / "pictures").iterdir())
    (folder / "pictures" / "metadata.jsonl").write_text("".join(json.dumps({"file_name": name, "text": _sentence(random)}) + "\n" for name in names))


def resnet_weights(folder):
    """The files that torchvision would download for ResNets, in a TORCH_HOME."""
    import torch
    from torchvision import models

    (folder / "hub" / "checkpoints").mkdir(parents=True)
    for name in ("resnet50-0676ba61", "resnet50-11ad3fa6", "resnet18-f37072fd"):
        torch.save(getattr(models, name.partition("-")[0])().state_dict(), folder / "hub" / "checkpoints" / f"{name}.pth")


KINDS = {maker.__name__: maker for maker in (images, pictures, super_resolution, carvana, mnist, coco, yolo, token_bins, characters, wikitext, names, enwik8,
                                             cora,
                                             planetoid, mutag, proteins, c4, texts, bert, llama, t5, vit, stable_diffusion, resnet_weights)}


def make(kind, folder):
    """Once: a file beside the folder says that an earlier call made it. The repository may have the folder, without the data."""
    folder = pathlib.Path(folder)
    made = folder.with_name(f".{folder.name}.{kind}")
    if made.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    KINDS[kind](folder)
    made.touch()


if __name__ == "__main__":
    make(*sys.argv[1:])
