"""Speech models of transformers: spans that are masked, CTC with lengths from the host, an encoder with a decoder, speech from text."""

import torch
import transformers as t

small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}


def train(model, steps=2, **batch):
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(**{name: value.cuda() for name, value in batch.items()}).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


lengths = torch.tensor([16000, 9000])
sound = {"input_values": torch.randn(2, 16000), "attention_mask": (torch.arange(16000)[None] < lengths[:, None]).long()}
for kind, config in ((t.Wav2Vec2ForCTC, t.Wav2Vec2Config), (t.HubertForCTC, t.HubertConfig), (t.WavLMForCTC, t.WavLMConfig)):
    made = config(**small, conv_dim=(32,) * 7, vocab_size=32, pad_token_id=0, mask_time_length=4, num_conv_pos_embeddings=16,
                  num_conv_pos_embedding_groups=2, ctc_zero_infinity=True)
    train(kind(made), labels=torch.tensor([[3, 4, 5, 6], [7, 8, -100, -100]]), **sound)

whisper = t.WhisperConfig(vocab_size=200, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                          encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=40, max_source_positions=100, max_target_positions=64, pad_token_id=0,
                          bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)
train(t.WhisperForConditionalGeneration(whisper), input_features=torch.randn(2, 40, 200), labels=torch.randint(3, 200, (2, 20)))

voice = t.SpeechT5Config(vocab_size=81, hidden_size=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                         encoder_ffn_dim=128, decoder_ffn_dim=128, speech_decoder_prenet_units=32, speech_decoder_postnet_units=32, num_mel_bins=20,
                         speaker_embedding_dim=16)
train(t.SpeechT5ForTextToSpeech(voice), input_ids=torch.randint(4, 80, (2, 30)), attention_mask=torch.ones(2, 30, dtype=torch.long),
      labels=torch.randn(2, 40, 20), speaker_embeddings=torch.randn(2, 16))
