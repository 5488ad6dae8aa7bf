"""One kernel expansion for each cluster."""

from kbench.clustering import Centroids, KernelCentres
from kbench.prediction import KernelExpansion, LocalMachines


class LocalExpansions(LocalMachines):
    """Kernel expansions by cluster; each row is evaluated by the expansion of its nearest centre.

    Attributes
    ----------
    nbytes : int. Bytes of the centres and of all expansions.
    """

    def __init__(
        self, centres: Centroids | KernelCentres, machines: list[KernelExpansion], n_outputs: int
    ) -> None:
        super().__init__(centres.assign, machines, n_outputs, centres.n_products)
        self.nbytes = centres.nbytes + sum(machine.nbytes for machine in machines)
