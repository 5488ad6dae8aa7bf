"""The query of a claim is about what its sentence names, and asks for what the sentence praises."""

import re

import pytest

from kbench.papers.cells.entries import quantity_of
from kbench.papers.claims.stated import claims
from kbench.papers.printed.layout import paper

DECIDED = [one for one in claims() if not one.open]

# Words of a sentence -> methods of which at least one must be in its query.
METHODS = {
    "LIBSVM": {"svc"},
    r"[Ee]arly (model|prediction)": {"dcsvm_early"},
    "[Ee]xact (DC-SVM|one)": {"dcsvm"},
    "our exact solver": {"kernel_svc"},
    "fifth of the rows": {"subsample_svc"},
    "DC-SVM": {"dcsvm"},
    "from zero": {"kernel_svc"},
    "CascadeSVM": {"cascade_svm", "support_curves"},
    "LaSVM": {"lasvm"},
    "bagg(ing|ed)": {"bagging_svc"},
    "low-rank": {"llsvm"},
    "landmarks, centres": {"ltpu"},
    "Theorem 1|random partition": {"division_bound"},
    "MEKA": {"meka", "meka_psd"},
    "singular value": {"svd"},
    "diagonal blocks": {"bka_svm", "bka"},
    "Random Fourier": {"rks"},
    "Nystrom": {"nystrom", "llsvm", "n_pegasos"},
    "Fastfood": {"fastfood_svm"},
    "LDKL": {"ldkl"},
    "extreme points": {"aesvm"},
    "the full kernel": {"norma"},
    "convolutional": {"conv_fixed"},
    "trained jointly": {"conv_joint"},
    "ADMM|compression": {"hss_admm"},
    "RACQP": {"racqp"},
}

# Words of a sentence -> the only data set, or one of the data sets, of its query.
DATA = {
    "[Oo]n (covtype|ijcnn1|webspam|Adult|Forest|ImageNet)": None,
    "digits 8 and 6": "MNIST8M 8 vs. 6",
    "ten digits": "MNIST8M",
    "QM7": "QuantumMachine",
}

# Words of a sentence -> quantities of which all of its query must be.
SECONDS = {"seconds", "time", "prediction", "training", "clustering"}
SECONDS |= {"ADMM", "compression", "factorization"}
QUANTITIES = {
    r"accura": {"accuracy"},
    r"kernel values": {"10^6 kernel values", "kernel entries M"},
    r"kernel error": {"kernel error"},
    r"test error": {"error"},
    r"RMSE": {"RMSE"},
    r"train\w* faster|times? faster|faster than": SECONDS,
    r"Clustering (is|takes)|of the time|prediction time": SECONDS | {"T_W", "T_L", "T_C"},
}

OWN = {
    "dcsvm": {"dcsvm", "dcsvm_early"},
    "meka": {"meka", "meka_psd", "bka_svm"},
    "dcpred": {"dcpred", "dcpred_krr"},
    "dsgd": {"doubly_sgd", "doubly_sgd_regressor"},
    "hss": {"hss_admm"},
}

# Sentences in which the paper's method stands on both sides or on none -> the term that is praised,
# first or second.
PRAISED = {
    "LaSVM, one pass": 0,
    "than the sum of all local models": 0,
    "than the Bayesian committee machine": 0,
    "faster with early prediction": 1,
    "worse bagging gets": 0,
    "256 bagged models lose": 0,
    "hardly loses accuracy": 0,
    "at most a point less accurate than the exact": 0,
    "Random Fourier features have": 1,
    "cheapest of MEKA's": 1,
    "RACQP is less accurate": 0,
    "random partition into as many": 1,
    "Of CascadeSVM's support vectors": 0,
    "Clustering is cheap": 0,
    "nearly overlap": 0,
    "features beat those": 1,
    "times the memory": 0,
    "Products of landmarks": 1,
    "of the triangle inequality": 1,
    "Landmarks weighted": 0,
    "clusters approximate the kernel better": 1,
    "On k-means landmarks MEKA": 1,
    "threshold that drops links": 1,
    "Ranks chosen by eigenvalues": 1,
}

# Sentences that say how large a part is, which is neither good nor bad.
PARTS = (
    "slower than LIBSVM on w7a",
    "Most of the time goes",
    "Compression takes nine tenths",
    "Clustering takes about as long",
)

# Curves that are better where they are larger, which a figure's quantity does not say.
LARGER = ("precision", "recall", "cosine")


def _cells(claim, term):
    """(methods, data set, quantity, whether more is better) of every cell of a term."""
    return [_facts(cell) for case in claim.cases for rival in case[term] for cell in rival]


def _facts(cell):
    wanted, asked, label = cell.wanted, cell.measure, cell.label
    methods = set(wanted.methods)
    if not label:  # the claim selects the runs itself
        title = quantity_of(asked).title.removesuffix(" %")
        label = asked.curve or {"fit s": "seconds"}.get(title, title)
    if asked.total:
        over = paper(cell.table.paper).tables[wanted.table]
        methods = set(over.columns[cell.column].methods)
    return methods, cell.data, label, _sign(label, asked)


def _sign(label, asked):
    return 1 if label in LARGER else quantity_of(asked).sign


def _all(claim):
    return [_facts(cell) for cell in claim.cells]


def _id(claim):
    return claim.says[:60]


@pytest.mark.parametrize("claim", DECIDED, ids=_id)
def test_a_query_is_of_the_methods_that_its_sentence_names(claim):
    """And of the data sets and the quantity."""
    cells = _all(claim)
    methods = set().union(*(cell[0] for cell in cells))
    sets, labels = {cell[1] for cell in cells}, {cell[2] for cell in cells}
    same_problem = {"kernel_svc"} if "LIBSVM's problem" in claim.quantity else set()
    for words, named in METHODS.items():
        if re.search(words, claim.says):
            assert methods & (named | same_problem), (words, methods)
    for words, name in DATA.items():
        for found in re.finditer(words, claim.says):
            wanted = (name or found[1]).lower()
            assert any(one.lower().startswith(wanted) for one in sets), (wanted, sets)
    if re.search("every data set|all data sets|everywhere", claim.says):
        assert len(sets) > 2
    for words, named in QUANTITIES.items():
        if re.search(words, claim.says):
            assert labels <= named, (words, labels)


@pytest.mark.parametrize("claim", DECIDED, ids=_id)
def test_a_better_method_never_refutes_its_praise(claim):
    """The answer moves to the side of the bound if the praised term gets better."""
    if claim.kind == "range" or any(words in claim.says for words in PARTS):
        return
    (sign,) = {cell[3] for cell in _all(claim)}
    bound = claim.case or claim.holds
    wanted = 1 if bound.lower else -1
    if claim.kind == "value":
        assert sign == wanted
        return
    own = [all(cell[0] <= OWN[claim.paper] for cell in _cells(claim, term)) for term in (0, 1)]
    if own[0] != own[1]:
        praised = own.index(True)
    else:
        (praised,) = (term for words, term in PRAISED.items() if words in claim.says)
    assert (1 if praised == 0 else -1) * sign == wanted


@pytest.mark.parametrize("claim", claims(), ids=_id)
def test_a_sentence_is_understood_without_the_one_before(claim):
    """Tables, searches and the overview show it alone."""
    assert not re.match(
        "(It|Its|They|These|There|So|(At|For|On|Of|With)[^:]* (it|its|they))\\b", claim.says
    )


def test_every_exception_is_that_of_a_claim():
    """The lists above name sentences that exist."""
    for words in (*PRAISED, *PARTS):
        assert sum(words in one.says for one in DECIDED) == 1, words
    for words in (*METHODS, *DATA, *QUANTITIES):
        assert any(re.search(words, one.says) for one in DECIDED), words
