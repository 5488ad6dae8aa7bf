"""
A model for programs without Python
===================================

``to_sklearn()`` returns a fitted ``SVC`` with the solution of ``KernelSVC``. skl2onnx writes that
as an ONNX model, which onnxruntime evaluates in C++, C#, Java or JavaScript as it does here.
"""

# %%
# Digits, scaled. The converter takes the scaler and the twin of the fitted model in one pipeline.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from onnxruntime import InferenceSession
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kbench.methods import KernelSVC

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
scaler = StandardScaler().fit(X[:1200])
model = KernelSVC(C=10.0, gamma=0.01).fit(scaler.transform(X[:1200]), y[:1200])
twin = make_pipeline(scaler, model.to_sklearn())
# skl2onnx reads attributes of SVC that scikit-learn is going to rename.
warnings.simplefilter("ignore", FutureWarning)
written = to_onnx(twin, X[:1], options={"zipmap": False}).SerializeToString()
print(f"{len(written) / 1e6:.2f} MB")

# %%
# onnxruntime adds up kernel values in float32. The labels of the 597 other rows are the same, and
# decision values, between -1 and 10, differ by a few units of the last digit of float32.

session = InferenceSession(written, providers=["CPUExecutionProvider"])
labels, values = session.run(None, {"X": X[1200:]})
rows = scaler.transform(X[1200:])
equal = np.mean(labels == model.predict(rows))
difference = np.abs(values - model.decision_function(rows))
print(f"{equal:.4f} of the labels are equal; largest difference {difference.max():.0e}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(np.log10(np.maximum(difference.ravel(), 1e-9)), bins=40)
axes.set(
    title="decision values of KernelSVC and of its ONNX model",
    xlabel="log10 of the difference",
    ylabel="values",
)
