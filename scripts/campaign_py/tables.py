"""Small tables of foreign formats, each of a few rows as their authors write them."""

LM = "LM (batch size 5)"
SHOCKWAVE = "LM (batch size 10)\tpython3 main.py --cuda\tlm\t--steps\t1\t3000\t{}\tgns\t1\t-1.000000\t600\t{}\n"

TRACES = {
    "acme": {
        "a.csv": "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
        "fail_time,stop_time,duration,queue,gpu_time\n"
        "d1,ua,2,16,240,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,"
        "2023-05-17 11:01:16+00:00,,18,10.0,288.0\n"
        "d2,ub,1,8,,1000,100.0,Other,CANCELLED,2023-05-17 19:00:00+08:00,2023-05-17 19:00:10+08:00,2023-05-17 19:01:10+08:00,,,70,10.0,"
        "560.0\n"
    },
    "csv": {"c.csv": "n_gpus,owner,submitted,run_s\n2,ana,2024-03-01 08:00:00,600\n1,bob,2024-03-01T08:01:00+01:00,01:05:00\n"},
    "elasticflow": {
        "e.csv": "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
        "0,10,200,resnet50_cifar10,4426,256,2,100,0\n1,25.0,90,vgg16,4426,256,1,100,0\n"
    },
    "gavel": {
        "g.trace": f"{LM}\tpython3 main.py\t--steps\t1\t400\t0.000000\t2\n{LM}\tpython3 main.py\t--steps\t1\t400\t10.5\t1\n",
        "t.json": f'{{"k80": {{}}, "v100": {{"(\'{LM}\', 1)": {{"null": 4.0}}, "(\'{LM}\', 2)": {{"null": 8.0}}}}}}',
    },
    "helios": {
        "h.csv": "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,a,v,1,2,1,COMPLETED,2020-04-01 00:00:01,2020-04-01 00:00:05,2020-04-01 00:01:05,60,4\n"
        "2,b,v,2,4,1,FAILED,2020-04-01 00:00:09,2020-04-01 00:00:10,2020-04-01 00:00:40,30,1\n"
        "3,b,w,8,16,1,CANCELLED,2020-04-01 00:01:01,2020-04-01 00:02:05,2020-04-01 00:09:05,420,64\n"
    },
    "pai-2020": {
        "jobs.csv": "j1,i1,u1,Terminated,100.0,400.0\nj2,i2,u2,Terminated,150.0,900.0\n",
        "tasks.csv": "j1,worker,1.0,Terminated,110.0,400.0,600.0,29.0,100.0,V100\n"
        "j2,worker,2.0,Terminated,160.0,900.0,600.0,29.0,50.0,T4\n",
    },
    "pai-2023": {
        "p.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p0,88000,1,8,1000,,LS,Succeeded,9437497,9437607,9437507.0\np1,4000,1,1,220,V100M32,BE,Running,9437500,9437600,9437500.0\n"
    },
    "philly": {
        "p.csv": "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 00:00:10,66,8,528,a\n2017-10-08 00:00:10,3600,1,3600,b\n"
    },
    "pollux": {"w.csv": "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\nncf-2,200,ncf,1,32768\n"},
    "rubick": {
        "r.csv": "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n"
        "a,5,100,vit,2,16,0,zero-dp,50,0\nb,9,100,llama30,48,384,1.25,344,50,1\n"
    },
    "sacct": {
        "s.txt": "JobID|JobName|User|Partition|State|Submit|Elapsed|AllocCPUS|AllocTRES\n"
        "7|train|ana|gpu|COMPLETED|2024-03-01T08:00:00|1-00:00:10|16|billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,node=1\n"
        "8_1|b|bob|gpu|CANCELLED by 10|2024-03-01T08:01:00|00:05:00|8|cpu=8,gres/gpu:v100=2\n"
    },
    "shockwave": {"s.trace": SHOCKWAVE.format(2, 0) + SHOCKWAVE.format(1, 56)},
}
"""Files of each format of `sched trace import`, in the order in which they are named."""

COLUMNS = "submit=submitted,duration=run_s,gpus=n_gpus,user=owner"
"""The columns of the table in the format `csv`."""

RUBICK_TIMES = "exec_plan,placement,iter_time\nga,1,1.1\ngc,1,1.4\nga,2,0.7\nga,4,0.45\nzero-dp,2,0.8\nzero-dp,4,0.5\n"

POLLUX_TIMES = """\
placement,local_bsz,step_time,sync_time
1,32,0.11,0.01
1,64,0.2,0.01
2,32,0.13,0.03
4,32,0.15,0.05
22,64,0.26,0.06
"""

STEP_TIMES = """\
job,devices,step_s,device_type,parameters,layers,peak_memory_bytes
opt@b8@dp1,1,1.1,GH200,350000000,24,12540968960
opt@b8@dp2,2,0.62,GH200,,,
opt@b8@dp4,4,0.35,GH200,,,
opt@b16@dp2-tp2,2+2,0.8,GH200,,,
opt@b16@dp4-zero2,4,0.7,GH200,,,
"""


def pairs() -> str:
    """All pairs of four jobs that slow each other down."""
    rows = ["mode,job_a,job_b,family_a,alone_a,alone_b,together_a,together_b,device_util_percent_a,device_util_percent_b,device_type"]
    jobs = [("lm", 0.1, 90), ("cnn@b32", 0.2, 70), ("rl@b8", 0.05, 20), ("gan", 0.3, 50)]
    for number, (a, alone_a, busy_a) in enumerate(jobs):
        for b, alone_b, busy_b in jobs[number:]:
            together = f"{alone_a * (1 + busy_b / 100):.6f},{alone_b * (1 + busy_a / 100):.6f}"
            rows.append(f"time-slice,{a},{b},,{alone_a},{alone_b},{together},{busy_a},{busy_b},V100")
    return "\n".join([*rows, ""])
