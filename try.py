import torch, sys
sys.path.insert(0,'.')
from tests.models.tiny import tiny_module
from askance.models.hf.passes import *
from askance.runtime.batch import Batch
torch.set_num_threads(1)
for kind,extra in [('llama',{}),('qwen2',{}),('mistral',{'sliding_window':8}),('gemma2',{'head_dim':8}),('gpt2',{}),('qwen3',{'head_dim':8}),('phi',{}),('gpt_neox',{}),('qwen2',{'use_sliding_window':True,'sliding_window':8,'max_window_layers':1})]:
    try:
        m=tiny_module(kind,**extra); cfg=m.config
        m.set_attn_implementation('eager')
        g=torch.Generator().manual_seed(1)
        prompts=[torch.randint(3,300,(n,),generator=g).tolist() for n in (30,7,19,30)]
        prompts[3][:20]=prompts[0][:20]
        def alone(p,n):
            ids=list(p); lg=[]
            for _ in range(n):
                with torch.inference_mode(): o=m(input_ids=torch.tensor([ids])).logits[0,-1]
                lg.append(o); ids.append(int(o.argmax()))
            return ids[len(p):],lg
        exp=[alone(p,8) for p in prompts]
        m.set_attn_implementation(PASSES_NAME)
        c=cfg; kvh=getattr(c,'num_key_value_heads',None) or c.num_attention_heads; hd=getattr(c,'head_dim',None) or c.hidden_size//c.num_attention_heads
        b=Passes(m,c.num_hidden_layers-1,[KeyShape(kvh,hd,hd)]*c.num_hidden_layers)
        batch=Batch(b,10**9)
        class Q:
            num_logits=1; wants_attention=True; is_abandoned=False
            def __init__(s,p,n): s.ids=list(p); s.n=n; s.max_tokens=len(p)+n; s.lg=[]; s.p=len(p); s.att=[]
            def take(s,fed,r):
                s.lg.append(fed.logits[-1]); s.ids.append(int(fed.logits[-1].argmax())); s.r=r
                if fed.attention is not None: s.att.append(fed.attention)
                return len(s.lg)<s.n
            def fail(s,e): raise e
        qs=[Q(p,8) for p in prompts]
        for q in qs: batch.put(q)
        while not batch.is_idle: batch.step()
        print(kind, [q.ids[q.p:]==e[0] for q,e in zip(qs,exp)], max((a-b).abs().max().item() for q,e in zip(qs,exp) for a,b in zip(q.lg,e[1])),[q.r for q in qs],[a.shape for a in qs[1].att][:2],qs[1].att[0].sum(-1))
    except Exception as e:
        import traceback; traceback.print_exc(limit=4); print(kind,type(e),e)
