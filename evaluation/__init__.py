"""`make paper`: the evaluation that TERAIO was published with, predicted from traces."""
