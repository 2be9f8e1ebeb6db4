import time
step = 0
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    step += 1
    print("step", step, flush=True)
