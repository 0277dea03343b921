"""Cross-encoders that onnxruntime runs without torch, with weights in 8 bits."""
