"""Detectors of transformers that match predictions with boxes: RT-DETR, Deformable DETR, Conditional DETR, YOLOS; Mask2Former with its points."""

import torch
import transformers as t

boxes = [torch.tensor([[0.5, 0.5, 0.2, 0.3], [0.3, 0.4, 0.1, 0.1]]), torch.tensor([[0.6, 0.6, 0.3, 0.3]])]
labels = [torch.tensor([1, 3]), torch.tensor([2])]
targets = [{"boxes": box.cuda(), "class_labels": label.cuda()} for box, label in zip(boxes, labels)]
pixels = torch.rand(2, 3, 128, 128).cuda()
small = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
         "decoder_ffn_dim": 64, "num_queries": 20}
stages = {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1], "layer_type": "basic"}
body = t.ResNetConfig(**stages, out_features=["stage2", "stage3", "stage4"])
last = t.ResNetConfig(**stages, out_features=["stage4"])
rt_body = t.RTDetrResNetConfig(**stages, out_features=["stage2", "stage3", "stage4"])
rt = {**small, "encoder_hidden_dim": 64, "encoder_in_channels": [32, 64, 64], "decoder_in_channels": [64, 64, 64], "num_denoising": 10}
models = [
    t.DetrForObjectDetection(t.DetrConfig(backbone_config=last, **small)),
    t.ConditionalDetrForObjectDetection(t.ConditionalDetrConfig(backbone_config=last, **small)),
    t.DeformableDetrForObjectDetection(t.DeformableDetrConfig(backbone_config=body, **small)),
    t.DeformableDetrForObjectDetection(t.DeformableDetrConfig(backbone_config=body, two_stage=True, with_box_refine=True, **small)),
    t.RTDetrForObjectDetection(t.RTDetrConfig(backbone_config=rt_body, **rt)),
    t.YolosForObjectDetection(t.YolosConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=[128, 128],
                                            num_detection_tokens=20)),
]
for model in models:
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        found = model(pixel_values=pixels, labels=targets)
        found.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(type(model).__name__, tuple(found.pred_boxes.shape), torch.cuda.max_memory_reserved() >> 20, "MiB")
    optimizer = found = None

masks = [torch.rand(2, 128, 128).gt(0.5).float().cuda(), torch.rand(1, 128, 128).gt(0.5).float().cuda()]
swin = t.SwinConfig(image_size=128, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4,
                    out_features=["stage1", "stage2", "stage3", "stage4"])
model = t.Mask2FormerForUniversalSegmentation(t.Mask2FormerConfig(backbone_config=swin, feature_size=32, mask_feature_size=32, hidden_dim=32,
                                                                  encoder_feedforward_dim=32, dim_feedforward=32, encoder_layers=1, decoder_layers=2,
                                                                  num_attention_heads=2, num_queries=10, train_num_points=64)).cuda().train()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(pixel_values=pixels, mask_labels=masks, class_labels=[label.cuda() for label in labels]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
