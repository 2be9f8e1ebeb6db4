"""What the evaluation of Gandiva (Xiao et al., OSDI 2018, section 6) states of its set-ups, and what is chosen here to simulate them.

Table 1, the rates and utilisations of eight models on a P40, is read from the folder of the reference (table1.py). What is marked as chosen
is not published.
"""

MINUTE_S = 60.0
P40, P100 = "NVIDIA P40", "NVIDIA P100"
DEVICES_PER_NODE = 4
# Samples of a mini-batch on each GPU. Chosen; no time depends on it.
BATCH = 32
# Memory of a job on each GPU. Chosen, so that any group fits into either type.
MEMORY_BYTES = 3 << 30
DEVICE_MEMORY = {P40: "24GiB", P100: "16GiB"}

# Time-slicing and packing on 180 GPUs. Table 1 has two jobs of low, three of middle and three of high utilisation, in this order. Those of
# a class are equally likely, and so are 2 and 4 GPUs of the last two models; both are chosen.
SLICING_NODES = 45
SLICING_JOBS = 1_000
SLICING_ARRIVALS_S = 2 * 3_600
SLICING_GPU_MINUTES = (30, 45)
SLICING_CLASSES = [(2, 0.3), (3, 0.25), (3, 0.45)]
SLICING_DEVICES_OF_LAST = (2, 4)
# Utilisation is published over these minutes.
SLICING_WINDOW_MINUTES = (20, 200)
# Time to 100 mini-batches in seconds, and utilisation in percent: bin packing without over-subscription, and Gandiva.
SLICING_PUBLISHED = {"first_100_s": (2_203, 498), "utilisation_percent": (50.1, 62.8)}

# The search over hyper-parameters of a CNN like LeNet (Table 3): configurations, mini-batches between two reports of the accuracy, the share
# of a configuration that they are, its target, and the places of the first configuration that reaches it.
LENET_CONFIGURATIONS = 374
LENET_REPORT_STEPS = 1_000
LENET_REPORT_SHARE = 0.03
LENET_TARGET = 0.84
LENET_POSITIONS = (93, 187, 280, 365)
# By GPUs: the number of configurations that run exclusively, and that of those that arrive at each report.
LENET_KEEP = {4: 2, 16: 8}
LENET_ARRIVE = {4: 2, 16: 8}
# Minutes to the first qualified configuration, by its place: exclusive execution, and Gandiva.
LENET_PUBLISHED = {
    4: {93: (691.5, 125.5), 187: (1373.0, 213.8), 280: (2067.2, 302.4), 365: (2726.4, 387.1)},
    16: {93: (253.0, 74.4), 187: (492.7, 103.7), 280: (731.7, 135.4), 365: (970.0, 162.6)},
}
# Where the qualified configuration reaches the target, as a share of its length. Chosen.
LENET_REACHES = 0.97

# The search over hyper-parameters of a network like ResNet on 16 GPUs (Table 4): the target, the place of the first configuration that reaches
# it, and the minutes to it: exclusive execution, and Gandiva.
RESNET_CONFIGURATIONS = 100
RESNET_DEVICES = 16
RESNET_KEEP = 8
RESNET_PUBLISHED = {0.7: (15, 134.1, 134.1), 0.8: (58, 2849.1, 543.1), 0.9: (87, 5296.7, 935.4)}
# The length of a configuration and its mini-batches between reports. Chosen: with 900 minutes, all three published times of exclusive
# execution are possible, because configuration 58 begins in the fourth round of 16 and configuration 87 in the sixth.
RESNET_LENGTH_MINUTES = 900
RESNET_REPORT_SHARE = 0.03
RESNET_STEP_S = 0.3
# Final accuracies of the three configurations that qualify. Chosen.
RESNET_FINAL = {15: 0.75, 58: 0.87, 87: 0.905}

# Losses are 1 - accuracy, of ten classes at first. Final accuracies of all others are uniform up to a point below the lowest target. Chosen.
FIRST_LOSS = 0.9
OTHERS_FINAL = (0.12, -0.01)
# What is left of the fall of a loss at the end of a configuration: log-uniform between these. Chosen.
LEFT_AT_END = (0.02, 0.2)

# The trace of nine days: the shares of jobs, the cluster, and the totals: YARN's capacity scheduler, and Gandiva.
NINE_DAYS_JOBS = 8_800
NINE_DAYS_NODES = [(P100, 13), (P40, 12)]
NINE_DAYS_MIX = {"vision": 0.1, "language": 0.6, "speech": 0.3}
NINE_DAYS_PUBLISHED = {"jct_minutes": (832, 656), "makespan_minutes": (13_371, 11_349), "migrations": (0, 470)}
# Jobs arrive over so many days, uniformly; their work is this part of what as many P40 could do in that time; and none runs longer than this.
# Chosen, so that FIFO has about the published average JCT and makespan of the baseline.
NINE_DAYS_ARRIVALS_DAYS = 6.5
NINE_DAYS_LOAD = 1.22
NINE_DAYS_LONGEST_DAYS = 1.5
# Ten models: kind, milliseconds of a mini-batch on a P40, utilisation in percent there, and the speed of a P100 over it. All but the
# names is chosen.
NINE_DAYS_MODELS = {
    "gandiva-inceptionv3": ("vision", 400, 95, 1.1),
    "gandiva-resnet50": ("vision", 300, 96, 1.1),
    "gandiva-alexnet": ("vision", 250, 80, 1.1),
    "gandiva-vgg16": ("vision", 500, 98, 1.1),
    "gandiva-bi-att-flow": ("language", 350, 62, 1.3),
    "gandiva-language-model": ("language", 60, 75, 1.3),
    "gandiva-gnmt": ("language", 500, 85, 1.3),
    "gandiva-transformer": ("language", 400, 88, 1.3),
    "gandiva-wavenet": ("speech", 450, 70, 1.3),
    "gandiva-deepspeech": ("speech", 800, 78, 1.3),
}
# A suspension with its resumption takes less than 100 ms for models of images and up to 1 s for large ones of translation; six of ten
# migrations take less than 1 s, and that of DeepSpeech 3.5 s. Chosen as one cost for all.
SWITCH_COST = "1s"
# The time of a step of a job on GPUs of several servers over that on one. Chosen; the paper shows that it depends on the model.
SPREAD_SLOWDOWN = 1.25
